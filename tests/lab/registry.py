"""Which labs exist on this machine, and the removal of those whose owner died.

Each lab has one record in REGISTRY: the owner's pid and start time, the lab's prefix and its directory. A record is
written before the first namespace and deleted after the last, so nothing of ours exists without one. Processes are
ended only if a pid file in the lab's directory names them and their command line mentions that directory, or if they
are in one of the lab's namespaces.
"""

import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import psutil

from tests.lab.commands import LabError
from tests.lab.netns import delete_namespaces, inhabitants, namespaces_of
from tests.lab.processes import end_processes, is_ours, recorded_processes

REGISTRY = Path("/run/aca-lab")
LABS_PER_PROCESS = 1000


@dataclass(frozen=True, slots=True)
class Record:
    """One lab: `started` is the owner's start time (s since the epoch), which tells a reused pid apart."""

    prefix: str
    directory: str
    pid: int
    started: float
    kept: bool = False

    @property
    def path(self) -> Path:
        return REGISTRY / f"{self.prefix}.json"

    @property
    def owner_alive(self) -> bool:
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) < 1.0
        except psutil.NoSuchProcess:
            return False


def register(directory: Path) -> Record:
    """Take a prefix that no other lab on this machine has. Raises LabError if this process has too many labs."""
    REGISTRY.mkdir(exist_ok=True)
    pid = os.getpid()
    started = psutil.Process(pid).create_time()
    for number in range(LABS_PER_PROCESS):
        record = Record(f"aca{pid:x}n{number}", str(directory), pid, started)
        with registry_lock():
            # A record, or namespaces, that a sweep could not remove: keep clear of them.
            if not record.path.exists() and not namespaces_of(record.prefix):
                save(record)
                return record
    raise LabError(f"more than {LABS_PER_PROCESS} labs in one process")


def keep(record: Record) -> Record:
    """Let the lab outlive its owner, until remove_labs() is told to remove it."""
    kept = replace(record, kept=True)
    save(kept)
    return kept


def save(record: Record) -> None:
    unfinished = record.path.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(record)))
    unfinished.replace(record.path)


def records() -> list[Record]:
    """Every lab on this machine, by prefix."""
    found = []
    for path in sorted(REGISTRY.glob("*.json")):
        # Its owner may close it at any moment.
        with suppress(FileNotFoundError):
            found.append(Record(**json.loads(path.read_text())))
    return found


def remove(record: Record) -> None:
    """End the lab's processes, delete its namespaces, then its record. Its directory (logs) stays."""
    directory = Path(record.directory)
    end_processes(recorded_processes(directory), lambda pid: is_ours(pid, directory), signal.SIGKILL)
    names = namespaces_of(record.prefix)
    # What a guest ran, or what died before its pid was written down: a namespace lives as long as they do.
    end_processes(inhabitants(names), lambda pid: pid in inhabitants(names), signal.SIGKILL)
    delete_namespaces(names)
    record.path.unlink(missing_ok=True)


def remove_labs(condition: Callable[[Record], bool]) -> list[Record]:
    """Remove the labs that meet a condition and whose owners have ended, and say which.

    Safe to run in several processes at once.
    """
    if not REGISTRY.exists():
        return []
    with registry_lock():
        gone = [record for record in records() if not record.owner_alive and condition(record)]
        for record in gone:
            remove(record)
    return gone


@contextmanager
def registry_lock() -> Iterator[None]:
    with (REGISTRY / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield

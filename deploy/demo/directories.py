"""The directories of demonstrations: each is locked while its demonstration runs, so that one that was killed shows."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.lab import registry

# Below it and not deeper: sockets have short names.
PARENT = Path("/tmp")
PREFIX = "aca-demo-"
LOGS_PREFIX = "aca-logs-of-demo-"


class Claim:
    """A new directory, ours until this process ends."""

    def __init__(self) -> None:
        """Raises OSError."""
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
            self._fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            # A sweep may have come between.
            if self.path.exists():
                return
            os.close(self._fd)

    def remove(self) -> None:
        """Delete it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._fd)

    def set_aside(self) -> Path:
        """Keep it, for its logs, under a name that no sweep takes; returns that."""
        kept = PARENT / (LOGS_PREFIX + self.path.name.removeprefix(PREFIX))
        self.path.rename(kept)
        os.close(self._fd)
        return kept


def sweep() -> None:
    """Remove what demonstrations left that were killed; those that run or are kept stay."""
    remove_demos(lambda record: not record.kept)
    kept = {Path(record.directory).parent for record in registry.records()}
    for directory in PARENT.glob(f"{PREFIX}*"):
        if directory not in kept and is_unclaimed(directory):
            shutil.rmtree(directory, ignore_errors=True)


def remove_demos(condition: Callable[[registry.Record], bool]) -> list[registry.Record]:
    """Remove demonstrations that meet a condition and whose owners have ended, with their files, and say which."""
    removed = registry.remove_labs(lambda record: is_demo(Path(record.directory).parent) and condition(record))
    for record in removed:
        shutil.rmtree(Path(record.directory).parent, ignore_errors=True)
    return removed


def is_demo(directory: Path) -> bool:
    return directory.parent == PARENT and directory.name.startswith(PREFIX)


def is_unclaimed(directory: Path) -> bool:
    """True if no running demonstration owns it."""
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)

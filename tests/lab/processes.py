"""Processes of a lab that outlive the call that started them: recorded in pid files, ended only if they are ours."""

import os
import select
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.lab.commands import LabError, run

END_TIMEOUT = 10.0


def recorded_pid(pidfile: Path) -> int | None:
    """The pid in a pid file, or None."""
    try:
        return int(pidfile.read_text().strip())
    except (FileNotFoundError, ValueError):
        return None


def recorded_processes(directory: Path) -> list[int]:
    """The pids of a lab's (or host's) running processes: those in its pid files whose command line mentions it."""
    pids = (recorded_pid(path) for path in sorted(directory.glob("**/*.pid")))
    return [pid for pid in pids if pid is not None and is_ours(pid, directory)]


def is_ours(pid: int, directory: Path) -> bool:
    """True if the process runs (a zombie does not) and its command line mentions `directory`."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False
    arguments = command.decode(errors="replace")
    return f"{directory}/" in arguments


def end_processes(
    pids: Iterable[int], ours: Callable[[int], bool], with_signal: signal.Signals, within: float = END_TIMEOUT
) -> None:
    """Signal processes, all at once, and wait for their end; those that are not ours or gone already are left out.
    Raises LabError if one goes on.

    A pidfd is held from before the check, so a reused pid cannot be hit.
    """
    with ExitStack() as stack:
        signalled: dict[int, int] = {}
        for pid in pids:
            with suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                stack.callback(os.close, fd)
                if ours(pid):
                    signal.pidfd_send_signal(fd, with_signal)
                    signalled[pid] = fd
        for pid, fd in signalled.items():
            poller = select.poll()
            poller.register(fd, select.POLLIN)
            if not poller.poll(within * 1000):
                raise LabError(f"process {pid} still runs {within:g} s after {with_signal.name}")


class Daemon:
    """One daemon with a pid file, which detaches once it is ready."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        directory: Path,
        env: Mapping[str, str],
        after_start: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.pidfile = directory / f"{name}.pid"
        self.log = directory / f"{name}.log"
        self._argv = tuple(argv)
        self._directory = directory
        self._env = dict(env)
        self._after_start = after_start

    @property
    def pid(self) -> int:
        """Raises LabError if it does not run."""
        pid = recorded_pid(self.pidfile)
        if pid is None or not is_ours(pid, self._directory):
            raise LabError(f"{self.name} does not run")
        return pid

    @property
    def running(self) -> bool:
        pid = recorded_pid(self.pidfile)
        return pid is not None and is_ours(pid, self._directory)

    def start(self) -> None:
        """Start it and return when it serves. Raises CommandError, LabError if it runs already."""
        if self.running:
            raise LabError(f"{self.name} runs already")
        run(self._argv, timeout=30.0, env=self._env)
        self._after_start()

    def stop(self) -> None:
        """End it with SIGTERM; fine if it does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does; fine if it does not run."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: it hangs, its sockets stay open, until resume()."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, with_signal: signal.Signals) -> None:
        pid = recorded_pid(self.pidfile)
        if pid is not None:
            end_processes([pid], lambda pid: is_ours(pid, self._directory), with_signal)

"""Running programs, and waiting, always with a time-out."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

POLL_INTERVAL = 0.01
PATIENCE = float(os.environ.get("ACA_LAB_PATIENCE", "1"))
"""What waits are multiplied by: more than 1 where the machine is emulated."""
COMMAND_TIMEOUT = 15.0 * PATIENCE


class LabError(Exception):
    """The lab could not do what it was asked."""


class CommandError(LabError):
    """A program failed or took too long. `status` is None after a time-out."""

    def __init__(self, argv: Sequence[str], status: int | None, output: str) -> None:
        self.argv = tuple(argv)
        self.status = status
        self.output = output
        how = "took too long" if status is None else f"exit status {status}"
        super().__init__(f"{' '.join(self.argv)}: {how}\n{output}".rstrip())


def attempt(
    argv: Sequence[str],
    *,
    timeout: float = COMMAND_TIMEOUT,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its exit status; stdout holds stderr too. Raises CommandError if late."""
    try:
        return subprocess.run(
            list(argv),
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            env=environment(env),
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode(errors="replace") if isinstance(error.stdout, bytes) else error.stdout
        raise CommandError(argv, None, output or "") from error


def run(
    argv: Sequence[str],
    *,
    timeout: float = COMMAND_TIMEOUT,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> str:
    """Run a program to its end and return its output. Raises CommandError if it fails or is late."""
    done = attempt(argv, timeout=timeout, env=env, stdin=stdin)
    if done.returncode != 0:
        raise CommandError(argv, done.returncode, done.stdout)
    return done.stdout


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for programs whose output we read: plain English, plus `extra`."""
    return {**os.environ, "LC_ALL": "C", **(extra or {})}


def wait_until(condition: Callable[[], T], within: float, what: str) -> T:
    """Poll until `condition` returns something true and return that; LabError naming `what` after `within` s,
    PATIENCE times that many.

    The condition is tried once more after the deadline, so a machine that froze for a while does not fail us.
    """
    within *= PATIENCE
    deadline = time.monotonic() + within
    while True:
        late = time.monotonic() >= deadline
        value = condition()
        if value:
            return value
        if late:
            raise LabError(f"not within {within:g} s: {what}")
        time.sleep(POLL_INTERVAL)

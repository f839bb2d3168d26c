"""`python -m deploy.demo`, which deploy/demo.sh calls. Exit status: 0 all expectations met; 1 one was not, or a step
could not be done; 2 not possible here; 128 + signal number when stopped."""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import grpc
from rich.console import Console

from deploy.demo.adapt import plan_for
from deploy.demo.intent import GOAL_STATES
from deploy.demo.interrupts import Interrupted, Interrupts
from deploy.demo.planes import CHOICES, planes_of_hosts
from deploy.demo.show import PIPE_WIDTH, Show
from deploy.demo.stage import REPOSITORY, Stage
from tests.lab import Lab, LabError, missing_requirements, registry

# Below it and not deeper: sockets have short names.
PARENT = Path("/tmp")
PREFIX = "aca-demo-"


def main() -> int:
    parser = argparse.ArgumentParser(prog="deploy/demo.sh", description=__doc__, add_help=True)
    parser.add_argument(
        "--dataplane", choices=CHOICES, default="ovs", help="what the hosts have; mixed: the one and the other"
    )
    parser.add_argument("--keep", action="store_true", help="leave the network running, and say how to use it")
    parser.add_argument(
        "--clean", nargs="*", metavar="PREFIX", help="remove all or some networks that --keep left, and end"
    )
    parser.add_argument(
        "--goalstates", type=Path, default=GOAL_STATES, metavar="DIRECTORY", help="show these instead of our own"
    )
    arguments = parser.parse_args()
    needed = {plane.name for plane in CHOICES[arguments.dataplane]}
    missing = [] if arguments.clean is not None else missing_requirements(needed)
    if missing:
        print(f"demo: not possible here: {'; '.join(missing)}", file=sys.stderr)
        return 2
    if arguments.clean is not None:
        return clean(arguments.clean)
    return demonstrate(arguments.dataplane, arguments.goalstates, arguments.keep)


def clean(prefixes: Sequence[str]) -> int:
    """Remove the kept demonstrations with these prefixes, or all if there are none, and their files."""

    def condemned(record: registry.Record) -> bool:
        return not prefixes or record.prefix in prefixes

    for record in remove(condemned):
        print(f"removed {record.prefix}  {record.directory}")
    return 0


def remove(condition: Callable[[registry.Record], bool]) -> list[registry.Record]:
    """Remove demonstrations that meet a condition and whose owners have ended, with their files, and say which."""
    removed = registry.remove_labs(lambda record: is_demo(Path(record.directory).parent) and condition(record))
    for record in removed:
        shutil.rmtree(Path(record.directory).parent, ignore_errors=True)
    return removed


def is_demo(directory: Path) -> bool:
    return directory.parent == PARENT and directory.name.startswith(PREFIX)


def demonstrate(dataplane: str, goal_states: Path, keep: bool) -> int:
    """The whole demonstration; returns the exit status. Raises CommandError if there are no such goal states."""
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    interrupts = Interrupts()
    if keep:
        # Inherited by all that we start: it is to outlive this terminal.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin = time.monotonic()
    # Left by one that was killed.
    remove(lambda record: not record.kept)
    planes = planes_of_hosts(dataplane)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
    try:
        plan = plan_for(goal_states, planes, directory / "goalstates")
        show = Show(console, plan.network, planes)
        lab = Lab(directory, "demo")
        stage = Stage(lab, plan, planes, console, show)
        problem = perform(lab, stage, interrupts, keep)
    except Interrupted as stop:
        console.print(f"\nstopped by {stop}; everything is removed again", style="bold", soft_wrap=True)
        shutil.rmtree(directory, ignore_errors=True)
        return 128 + stop.number
    kept = keep and not problem
    good = conclude(show, stage, problem, f"{time.monotonic() - begin:.1f} s", kept)
    if kept:
        show.title(f"It goes on running; as root, in {REPOSITORY}:")
        show.commands(stage.commands())
    elif good:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        show.line(f"logs: {directory}")
    return 0 if good else 1


def perform(lab: Lab, stage: Stage, interrupts: Interrupts, keep: bool) -> str:
    """Play on the lab and close or keep it; returns why a step could not be done, "" if all could. Raises
    Interrupted, with the lab closed."""
    try:
        with lab:
            try:
                stage.play()
                if keep:
                    lab.keep()
            finally:
                interrupts.put_off()
    except click.ClickException as error:
        return error.format_message()
    except (LabError, OSError, ValueError, subprocess.SubprocessError, grpc.RpcError) as error:
        return str(error)
    return ""


def conclude(show: Show, stage: Stage, problem: str, took: str, kept: bool) -> bool:
    """Print what went wrong and the verdict, and return whether that is good."""
    show.title("Verdict")
    for words in [*stage.failures, *([problem] if problem else [])]:
        show.verdict(False, words)
    good = not stage.failures and not problem
    total = stage.met + len(stage.failures)
    unfinished = ", and it could not be finished" if problem else ""
    after = "kept running" if kept else "everything removed again"
    words = f"{'PASSED' if good else 'FAILED'}: {stage.met} of {total} expectations met{unfinished}; {took}; {after}"
    show.verdict(good, words)
    return good


if __name__ == "__main__":
    sys.exit(main())

"""`python -m deploy.demo`, which deploy/demo.sh calls. Exit status: 0 all expectations met; 1 one was not, or a step
could not be done; 2 not possible here; 128 + signal number when stopped."""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import grpc
from rich.console import Console

from deploy.demo.adapt import plan_for
from deploy.demo.directories import Claim, remove_demos, sweep
from deploy.demo.intent import GOAL_STATES
from deploy.demo.interrupts import Interrupted, Interrupts
from deploy.demo.planes import CHOICES, planes_of_hosts
from deploy.demo.show import PIPE_WIDTH, Show
from deploy.demo.stage import REPOSITORY, Stage
from tests.lab import Lab, LabError, missing_requirements, registry


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

    for record in remove_demos(condemned):
        print(f"removed {record.prefix}  {record.directory}")
    sweep()
    return 0


def demonstrate(dataplane: str, goal_states: Path, keep: bool) -> int:
    """The whole demonstration; returns the exit status. Raises CommandError if there are no such goal states."""
    console = Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
    interrupts = Interrupts()
    if keep:
        # Inherited by all that we start: it is to outlive this terminal.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    begin = time.monotonic()
    sweep()
    planes = planes_of_hosts(dataplane)
    claim = Claim()
    try:
        plan = plan_for(goal_states, planes, claim.path / "goalstates")
        show = Show(console, plan.network, planes)
        lab = Lab(claim.path, "demo")
        stage = Stage(lab, plan, planes, console, show)
        problem = perform(lab, stage, interrupts, keep)
    except click.ClickException:
        claim.remove()
        raise
    except Interrupted as stop:
        console.print(f"\nstopped by {stop}; everything is removed again", style="bold", soft_wrap=True)
        claim.remove()
        return 128 + stop.number
    kept = keep and not problem
    good = conclude(show, stage, problem, f"{time.monotonic() - begin:.1f} s", kept)
    if kept:
        show.title(f"It goes on running; as root, in {REPOSITORY}:")
        show.commands(stage.commands())
    elif good:
        claim.remove()
    else:
        show.line(f"logs: {claim.set_aside()}")
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

"""`aca check`: is a goal state valid?"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import click
from rich.table import Table

from aca.cli.console import MANY, CommandError, line, output, table, verdict
from aca.cli.goalstates import GoalStateFile, layout_option, read_goal_state
from aca.cli.names import bare_reason, kind_name, operation_name
from aca.goalstate.changes import Change
from aca.goalstate.decode import decode_v1, decode_v2
from dataplane.addresses import AddressError, format_address, parse_address
from goalstate_proto.goalstate_pb2 import GoalState


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--v1", is_flag=True, help="The files are of the first layout (GoalState).")
@click.option("--v2", is_flag=True, help="The files are of the second layout (GoalStateV2).")
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="ADDRESS",
    help="Only what a second-layout file means for the host of this address (repeat for all its addresses); the first "
    "layout names no hosts. [default: everything]",
)
def check(files: tuple[Path, ...], v1: bool, v2: bool, hosts: tuple[str, ...]) -> None:
    """Validate goal states without an agent.

    FILES are in text form (.txtpb), JSON (.json) or binary (.pb, .bin), of either layout: '.v1.' or '.v2.' in the name
    decides, else the content. '-' is standard input.

    Prints the resources, and of each that is invalid the first error: when that is mended, check again. Valid says that
    an agent takes the resource, not that the data plane of this or another host can program it: what a resource refers
    to, devices and what the data plane is capable of only show when it is pushed.

    Exit status: 0 all valid; 1 a resource is invalid; 2 a file cannot be read as a goal state.
    """
    layout = layout_option(v1, v2)
    addresses = _addresses(hosts)
    invalid = sum([_check_file(read_goal_state(path, layout), addresses) for path in files])
    if invalid:
        raise click.exceptions.Exit(1)


def _addresses(hosts: Iterable[str]) -> frozenset[str]:
    try:
        return frozenset(format_address(parse_address(host)) for host in hosts)
    except AddressError as error:
        raise CommandError(f"--host: {error}") from None


def _check_file(file: GoalStateFile, addresses: frozenset[str]) -> int:
    """Prints what a file holds and returns the number of invalid resources."""
    empty = file.is_empty
    changes = list(itertools.chain.from_iterable(_decode(file, addresses)))
    bad = [change for change in changes if change.error]
    console = output()
    line(console, f"{file.name}: {file.layout.value}, {len(changes)} resources, {len(bad)} invalid")
    if empty:
        line(console, "it is empty: it holds no resources")
    elif not changes:
        line(console, f"nothing is for host {', '.join(sorted(addresses))}" if addresses else "it holds no resources")
    if len(changes) > MANY:
        console.print(_summary(changes))
    shown = bad if len(changes) > MANY else changes
    if shown:
        console.print(_listing(shown))
    return len(bad)


def _decode(file: GoalStateFile, addresses: frozenset[str]) -> Iterable[list[Change]]:
    message = file.message
    if isinstance(message, GoalState):
        return decode_v1(message)
    if not addresses:
        # Otherwise what is named for some host would be skipped as another's.
        message.ClearField("host_resources")
    return decode_v2(message, addresses)


def _listing(changes: Iterable[Change]) -> Table:
    return table(
        ["kind", "id", "operation", ">revision", "verdict", "error"],
        (
            (
                kind_name(change.kind),
                change.resource_id or change.id,
                operation_name(change.operation),
                str(change.revision),
                verdict("invalid" if change.error else "valid"),
                bare_reason(change.error, kind_name(change.kind), change.resource_id),
            )
            for change in changes
        ),
    )


def _summary(changes: Iterable[Change]) -> Table:
    counts = Counter((change.kind, bool(change.error)) for change in changes)
    kinds = sorted({kind for kind, _ in counts})
    return table(
        ["kind", ">valid", ">invalid"],
        ((kind_name(kind), str(counts[kind, False]), str(counts[kind, True])) for kind in kinds),
    )

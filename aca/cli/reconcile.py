"""`aca reconcile`: compare what stands on the data plane with what is wanted, and put it right."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from aca.cli.admin import ask, socket_option
from aca.cli.console import MANY, line, output
from goalstate_proto import aca_pb2

_TIMEOUT_S = 310.0


@click.command()
@socket_option
@click.option("--dry-run", "mode", flag_value="LOOK", help="Only show what would be done.")
@click.option("--force", "mode", flag_value="FORCE",
              help="Take away what nothing wants even if the agent has not been told everything yet, or if it is "
              "suspiciously much.")
@click.option("--json", "as_json", is_flag=True, help="Print what was found and done as JSON.")
def reconcile(socket: Path, mode: str | None, as_json: bool) -> None:
    """Put back what is missing or altered, and take away what nothing wants.

    The agent does that by itself; this does it now and shows what it is. Objects that are not the agent's own are never
    touched.

    Exit status: 0 all is as it should be, or has been put right; 1 something is not and was left; 2 not done.
    """
    request = aca_pb2.ReconcileRequest(mode=mode or "REPAIR")
    reply = ask(socket, lambda admin: admin.Reconcile(request, timeout=_TIMEOUT_S))
    found: dict[str, Any] = json.loads(reply.json)
    if as_json:
        click.echo(json.dumps(found, indent=2, sort_keys=True))
    else:
        _show(output(), found, only_looked=mode == "LOOK")
    wrong = found["missing"] + found["altered"] if mode == "LOOK" else 0
    raise SystemExit(1 if wrong or found["leftovers_total"] > found["removed"] else 0)


def _show(console: Console, found: Mapping[str, Any], *, only_looked: bool) -> None:
    wrong, leftovers = found["missing"] + found["altered"], found["leftovers_total"]
    line(console, f"objects of this agent that stand: {found['standing']}")
    done = "would be put back" if only_looked else "put back"
    line(console, f"missing: {found['missing']}, altered: {found['altered']}{f' ({done})' if wrong else ''}")
    for example in found["examples"]:
        line(console, f"  {example}")
    if not leftovers:
        line(console, "nothing stands that is not wanted")
        return
    if found["kept_because"]:
        line(console, f"not wanted: {leftovers}, left alone: {found['kept_because']}")
    elif only_looked:
        line(console, f"not wanted: {leftovers} (would be taken away)")
    else:
        line(console, f"not wanted: {leftovers}, taken away: {found['removed']}")
    for name in found["leftovers"][:MANY]:
        line(console, f"  {name}")
    if leftovers > MANY:
        line(console, f"  and {leftovers - MANY} more (--json lists 1,000)")

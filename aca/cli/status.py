"""`aca status`: what the agent on this host wants, has and waits for."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from aca.cli.admin import ask, socket_option
from aca.cli.console import line, output, table, verdict
from aca.cli.names import bare_reason
from goalstate_proto import aca_pb2

_TIMEOUT_S = 10.0
_COUNTS = ("desired", "programmed", "pending", "invalid", "failed")


@click.command()
@socket_option
@click.option("--json", "as_json", is_flag=True, help="Print the whole status as JSON.")
def status(socket: Path, as_json: bool) -> None:
    """Show what is desired, programmed and pending, and why.

    Only the agent's user, normally root, may ask it.

    Exit status: 0 printed; 2 no agent answers on the socket.
    """
    reply = ask(socket, lambda admin: admin.GetStatus(aca_pb2.StatusRequest(), timeout=_TIMEOUT_S))
    document: dict[str, Any] = json.loads(reply.json)
    if as_json:
        click.echo(json.dumps(document, indent=2, sort_keys=True))
    else:
        _show(output(), document)


def _show(console: Console, document: Mapping[str, Any]) -> None:
    agent, plane = document["agent"], document["dataplane"]
    line(
        console,
        f"agent {agent['version']} on {agent['host']} ({', '.join(document['host']['addresses'])}), "
        f"pid {agent['pid']}, up {_duration(agent['uptime_s'])}",
    )
    state = "ready" if plane["ready"] else f"not ready: {plane['reason']}"
    line(console, f"data plane {agent['data_plane']}: {state} (for {_duration(time.time() - plane['since'])})")
    line(console, f"messages in hand: {document['messages_in_hand']}, changes in work: {document['in_work']}")
    console.print(
        table(
            ["kind", *(f">{column}" for column in _COUNTS)],
            ([kind, *(str(count[column]) for column in _COUNTS)] for kind, count in document["resources"].items()),
        )
    )
    _show_problems(console, document)
    _show_on_demand(console, document.get("on_demand"))
    if kafka := document.get("kafka"):
        _show_kafka(console, kafka)
    if refused := document.get("refused"):
        title = "refused (what was known of them before stays programmed)"
        _show_entries(console, title, _bare(_with_ages(refused)), ("kind", "id", "reason", "ago"))
    _show_reconcile(console, document["reconcile"])
    conflicts = [
        entry | {"claimed": entry.get("address") or entry.get("mac"), "claimed by others": entry["others"]}
        for entry in document["conflicts"]
    ]
    if conflicts:
        _show_entries(console, "conflicts", conflicts, ("subnet", "claimed", "holder", "claimed by others"))
    else:
        line(console, "no conflicts")
    for note in document.get("notes", ()):
        line(console, f"note: {note}")


def _show_problems(console: Console, document: Mapping[str, Any]) -> None:
    plane, problems, total = document["dataplane"], document["problems"], document["problems_total"]
    if not plane["ready"]:
        waiting = sum(count["pending"] for count in document["resources"].values())
        wait = "1 resource waits" if waiting == 1 else f"{waiting} resources wait"
        line(console, f"nothing is programmed: data plane not ready: {plane['reason']}; {wait}")
    elif not problems:
        line(console, "no problems")
    if problems:
        title = f"problems ({len(problems)} of {total})" if total > len(problems) else "problems"
        _show_entries(console, title, _bare(problems), ("kind", "id", "status", "reason"))


def _show_reconcile(console: Console, reconcile: Mapping[str, Any]) -> None:
    told = "everything has been told" if reconcile["complete"] else f"not everything is known: {reconcile['waiting']}"
    line(console, f"{told}; put back since the start: {reconcile['put_back']}, swept: {reconcile['swept']}")
    now = time.time()
    for name, found in reconcile["last"].items():
        facts = ", ".join(f"{key} {value}" for key, value in found.items() if key != "at")
        line(console, f"last {name} {_duration(max(0.0, now - found['at']))} ago: {facts}")
    if reconcile["alarm"]:
        line(console, f"NOT SWEPT: {reconcile['alarm']}")


def _show_on_demand(console: Console, on_demand: Mapping[str, Any] | None) -> None:
    """Nothing if nobody has asked and nobody is asked."""
    if not on_demand or not (on_demand["active"] or on_demand["counts"]):
        return
    counts = on_demand["counts"]
    dropped = sum(number for name, number in counts.items() if name.startswith("dropped"))
    line(
        console,
        f"unknown destinations: {on_demand['pending']} asked for, {on_demand['negative']} known to be nowhere; "
        f"packets: {counts.get('packets', 0)} taken, {counts.get('released', 0)} let go on, {dropped} dropped",
    )
    if on_demand["trouble"]:
        line(console, f"controller does not answer: {on_demand['trouble']}")


def _show_kafka(console: Console, kafka: Mapping[str, Any]) -> None:
    counts = kafka["counts"]
    told = (
        f"records: {counts.get('records', 0)} read, {counts.get('skipped', 0)} of other hosts, "
        f"{counts.get('dead_letters', 0)} that cannot be read"
    )
    if kafka["connected"]:
        line(console, f"kafka: connected; {told}")
    else:
        away = _duration(max(0.0, time.time() - kafka["disconnected_since"]))
        line(console, f"kafka: disconnected since {away} ago; {told}")
    if kafka["trouble"]:
        line(console, f"kafka: {kafka['trouble']}")
    for topic, state in kafka["compacted"].items():
        read = "read to its end" if state["loaded"] else "being read, nothing of it is programmed yet"
        line(console, f"kafka: {topic}: {read}, {state['keys']} keys")


def _bare(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{**entry, "reason": bare_reason(entry["reason"], entry["kind"], entry["id"])} for entry in entries]


def _with_ages(entries: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    now = time.time()
    return [{**entry, "ago": _duration(max(0.0, now - entry["at"]))} for entry in entries]


def _show_entries(console: Console, title: str, entries: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    line(console, f"{title}:")
    console.print(table(columns, ([verdict(_text(entry.get(column, ""))) for column in columns] for entry in entries)))


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"

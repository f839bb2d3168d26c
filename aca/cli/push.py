"""`aca push`: send goal states to an agent and show what became of them."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from aca.cli.client import AgentClient, Outcome, Push
from aca.cli.console import MANY, CommandError, errors, line, output, table, verdict
from aca.cli.goalstates import GoalStateFile, layout_option, read_goal_state
from aca.cli.logpush import KafkaTarget, push_to_log
from aca.cli.names import bare_reason, kind_name, operation_name, status_name
from aca.cli.publish import properties_of
from aca.cli.target import check_target
from goalstate_proto import common_pb2

_FAILED = frozenset({common_pb2.FAILURE, common_pb2.INVALID_ARG, common_pb2.OUT_OF_ORDER})
_NOT_DONE = _FAILED | {common_pb2.PENDING}


@click.command(short_help="Push goal states to an agent, or publish them on Kafka.")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--to", "target", metavar="HOST:PORT", help="The agent, e.g. 127.0.0.1:50001; unix:/PATH works too.")
@click.option("--kafka", "brokers", metavar="HOST:PORT,...", help="Publish by these brokers instead of --to an agent.")
@click.option("--topic", help="Where to publish.")
@click.option("--partition", type=click.IntRange(0), help="Its partition. [default: by the key]")
@click.option("--key", help="The records' key: a host's id or address; in a compacted topic, what the record is of.")
@click.option("--tombstone", is_flag=True, help="Publish the deletion of --key instead of files.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property of librdkafka (repeatable)."
)
@click.option(
    "--property-file", "property_files", multiple=True, metavar="NAME=PATH", help="One whose value is in a file."
)
@click.option("--v1", is_flag=True, help="The files are of the first layout (GoalState).")
@click.option("--v2", is_flag=True, help="The files are of the second layout (GoalStateV2).")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Send all files so many times.")
@click.option("--fail-pending", is_flag=True, help="Exit 1 for PENDING resources too.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcomes as JSON.")
@click.option(
    "--connect-timeout", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True, metavar="SECONDS"
)
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for one reply.",
)
def push(
    files: tuple[Path, ...],
    target: str | None,
    brokers: str | None,
    topic: str | None,
    partition: int | None,
    key: str | None,
    tombstone: bool,
    properties: tuple[str, ...],
    property_files: tuple[str, ...],
    v1: bool,
    v2: bool,
    repeat: int,
    fail_pending: bool,
    as_json: bool,
    connect_timeout: float,
    timeout: float,
) -> None:
    """Push goal states to an agent, one after another, and print what became of each resource.

    FILES are in text form (.txtpb), JSON (.json) or binary (.pb, .bin), of either layout: '.v1.' or '.v2.' in the name
    decides, else the content. '-' is standard input. The first layout goes by the unary call, the second by the stream.

    With --kafka and --topic, each file becomes one record of that topic, written when all in-sync replicas have it.

    Exit status: 0 no resource failed (PENDING is no failure without --fail-pending), every record is written; 1 a
    resource is FAILURE, INVALID_ARG or OUT_OF_ORDER; 2 a file cannot be read, or the agent or the brokers cannot be
    reached or refused.
    """
    layout = layout_option(v1, v2)
    if brokers is not None:
        if target is not None:
            raise CommandError("--to and --kafka exclude each other")
        where = KafkaTarget(brokers, topic or "", partition, key, properties_of(properties, property_files), timeout)
        push_to_log(where, [read_goal_state(path, layout) for path in files] * repeat, tombstone, as_json)
        return
    if topic is not None or partition is not None or key is not None or tombstone or properties or property_files:
        raise CommandError("--topic, --partition, --key, --tombstone and --property are for --kafka")
    if target is None:
        raise CommandError("--to or --kafka must be given")
    if not files:
        raise CommandError("no FILES are given")
    check_target(target)
    messages = [read_goal_state(path, layout) for path in files] * repeat
    done: list[Push] = []
    try:
        with AgentClient(target, connect_timeout, timeout) as client:
            for result in _progress(client, messages):
                # Not `extend`: what was answered before the agent went is worth knowing.
                done.append(result)  # noqa: PERF402
    finally:
        _report(done, as_json)
    failures = _NOT_DONE if fail_pending else _FAILED
    if any(outcome.status in failures for result in done for outcome in result.outcomes):
        raise click.exceptions.Exit(1)


def _progress(client: AgentClient, messages: Sequence[GoalStateFile]) -> Iterator[Push]:
    columns = (TextColumn("pushing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors(), transient=True, disable=len(messages) < 2) as progress:
        yield from progress.track((client.push(message) for message in messages), total=len(messages))


def _report(done: Sequence[Push], as_json: bool) -> None:
    if not done:
        return
    if as_json:
        click.echo(json.dumps([_as_json(result) for result in done], indent=2))
        return
    console = output()
    outcomes = [outcome for result in done for outcome in result.outcomes]
    if len(outcomes) <= MANY:
        _print_listing(console, outcomes)
    else:
        _print_summary(console, outcomes)
        _print_listing(console, [outcome for outcome in outcomes if outcome.status in _FAILED])
    _print_times(console, done, len(outcomes))


def _print_listing(console: Console, outcomes: Sequence[Outcome]) -> None:
    if not outcomes:
        return
    # Agents that make no devices, as ours, never fill this in.
    devices = [">devices ms"] if any(outcome.network_us for outcome in outcomes) else []
    console.print(
        table(
            ["kind", "id", "operation", "status", ">data plane ms", *devices, ">total ms", "reason"],
            (
                (
                    kind_name(outcome.kind),
                    outcome.label,
                    operation_name(outcome.operation),
                    verdict(status_name(outcome.status)),
                    _ms(outcome.dataplane_us),
                    *[_ms(outcome.network_us) for _ in devices],
                    _ms(outcome.elapsed_us),
                    _reason(outcome),
                )
                for outcome in outcomes
            ),
        )
    )


def _print_summary(console: Console, outcomes: Iterable[Outcome]) -> None:
    elapsed: dict[tuple[int, int], list[int]] = {}
    reasons: dict[tuple[int, int], Counter[str]] = {}
    for outcome in outcomes:
        group = (outcome.kind, outcome.status)
        elapsed.setdefault(group, []).append(outcome.elapsed_us)
        if outcome.reason:
            reasons.setdefault(group, Counter())[_reason(outcome)] += 1
    console.print(
        table(
            ["kind", "status", ">resources", ">median ms", ">max ms", "most frequent reason"],
            (
                (
                    kind_name(kind),
                    verdict(status_name(status)),
                    str(len(times)),
                    _ms(statistics.median(times)),
                    _ms(max(times)),
                    reasons[kind, status].most_common(1)[0][0] if (kind, status) in reasons else "",
                )
                for (kind, status), times in sorted(elapsed.items())
            ),
        )
    )


def _print_times(console: Console, done: Sequence[Push], resources: int) -> None:
    seconds = sum(result.seconds for result in done)
    agent_ms = sum(result.total_us for result in done) / 1000
    text = (
        f"{len(done)} message{'s'[: len(done) != 1]}, {resources} resource{'s'[: resources != 1]}: "
        f"{seconds * 1000:.1f} ms from sending to reply, {agent_ms:.1f} ms of it in the agent"
    )
    if len(done) > 1:
        times = [result.seconds * 1000 for result in done]
        text += f"; per message median {statistics.median(times):.1f} ms, max {max(times):.1f} ms"
    line(console, text)


def _reason(outcome: Outcome) -> str:
    return bare_reason(outcome.reason, kind_name(outcome.kind), outcome.id)


def _ms(microseconds: float) -> str:
    return f"{microseconds / 1000:.2f}"


def _as_json(result: Push) -> dict[str, Any]:
    return {
        "file": result.file.name,
        "layout": result.file.layout.value,
        "seconds": round(result.seconds, 6),
        "total_us": result.total_us,
        "resources": [
            {
                "kind": kind_name(outcome.kind),
                "id": outcome.id,
                "operation": operation_name(outcome.operation),
                "status": status_name(outcome.status),
                "reason": outcome.reason,
                "dataplane_us": outcome.dataplane_us,
                "network_us": outcome.network_us,
                "elapsed_us": outcome.elapsed_us,
            }
            for outcome in result.outcomes
        ],
    }

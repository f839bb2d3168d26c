"""`aca push --kafka`: what is published, and what is refused beforehand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from aca.cli.console import CommandError, line, output, table
from aca.cli.goalstates import GoalStateFile
from aca.cli.publish import Publisher, Record, Written, first_delta, record_of, tombstone


@dataclass(frozen=True, slots=True)
class KafkaTarget:
    """Where to publish. `partition` None: by the key."""

    brokers: str
    topic: str
    partition: int | None
    key: str | None
    properties: Mapping[str, str]
    timeout_s: float


def push_to_log(target: KafkaTarget, files: Sequence[GoalStateFile], delete: bool, as_json: bool) -> None:
    """Publish the files, or the deletion of the key, and print where they are. Raises CommandError."""
    if not target.topic:
        raise CommandError("--kafka needs --topic")
    records = _records(target, files, delete)
    publisher = Publisher(target.brokers, target.topic, target.properties, target.timeout_s)
    if publisher.is_compacted():
        _check_compacted(target, files, records)
    _report(target, publisher.write(records, target.partition), as_json)


def _records(target: KafkaTarget, files: Sequence[GoalStateFile], delete: bool) -> list[Record]:
    if not delete:
        if not files:
            raise CommandError("no FILES are given")
        return [record_of(file, target.key) for file in files]
    if files:
        raise CommandError("--tombstone takes no FILES")
    if not target.key:
        raise CommandError("--tombstone needs --key")
    return [tombstone(target.key)]


def _check_compacted(target: KafkaTarget, files: Sequence[GoalStateFile], records: Sequence[Record]) -> None:
    """What compaction would lose, or the brokers refuse."""
    if not target.key:
        raise CommandError(f"topic {target.topic} is compacted: --key is needed")
    if len(records) > 1:
        raise CommandError(f"topic {target.topic} is compacted: of {len(records)} records with one key, one would stay")
    for file in files:
        if (found := first_delta(file.message)) is not None:
            raise CommandError(
                f"{file.name}: {found}: update_type is DELTA, and topic {target.topic} is compacted, which would drop "
                "what it adds to; publish FULL"
            )


def _report(target: KafkaTarget, written: Sequence[Written], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([_as_json(target, one) for one in written], indent=2))
        return
    console = output()
    console.print(
        table(
            ["record", "key", ">partition", ">offset", ">bytes"],
            (
                (
                    one.record.name,
                    one.record.key if one.record.key is not None else "-",
                    str(one.partition),
                    str(one.offset),
                    str(len(one.record.value or b"")),
                )
                for one in written
            ),
        )
    )
    line(console, f"{len(written)} record{'s'[: len(written) != 1]} written to topic {target.topic}")


def _as_json(target: KafkaTarget, one: Written) -> dict[str, object]:
    return {
        "record": one.record.name,
        "topic": target.topic,
        "key": one.record.key,
        "partition": one.partition,
        "offset": one.offset,
        "bytes": len(one.record.value or b""),
    }

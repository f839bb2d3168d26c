"""What events have cost, for people (a table) and for programs (JSON lines)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.traffic import Losses, Measured


@dataclass(frozen=True, slots=True)
class Row:
    """One event on one kind of cloud."""

    kind: str
    event: str
    measured: Measured


class Report:
    """The rows of a run, in order; each is appended to `file`, if there is one, as soon as it is known."""

    def __init__(self, file: Path | None = None) -> None:
        self.rows: list[Row] = []
        self._file = file

    def add(self, kind: str, event: str, measured: Measured) -> None:
        row = Row(kind, event, measured)
        self.rows.append(row)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(format_row(row) + "\n")


def load_rows(file: Path) -> list[Row]:
    """Raises OSError, ValueError."""
    return [parse_row(line) for line in file.read_text().splitlines()]


def format_row(row: Row) -> str:
    """One line of JSON."""
    return json.dumps(asdict(row))


def parse_row(line: str) -> Row:
    """What format_row() wrote. Raises ValueError."""
    document = json.loads(line)
    measured = document["measured"]
    pairs = tuple(Losses(**{**pair, "lost_at": tuple(pair["lost_at"])}) for pair in measured["pairs"])
    return Row(str(document["kind"]), str(document["event"]), Measured(measured["seconds"], pairs, measured["stall"]))


HEAD = ("cloud", "event", "watched s", "lost/sent", "silence ms", "TCP stall ms", "answered twice")
TEXTS = (0, 1, 3)
"""Columns of HEAD that are not numbers."""


def cells(row: Row) -> tuple[str, ...]:
    """As in HEAD. The silence is the longest of all pairs."""
    measured = row.measured
    silence = max((pair.silence for pair in measured.pairs), default=0.0)
    return (
        row.kind,
        row.event,
        f"{measured.seconds:.1f}",
        ", ".join(f"{pair.pair} {pair.lost}/{pair.sent}" for pair in measured.pairs),
        f"{silence * 1000:.0f}",
        f"{measured.stall * 1000:.0f}",
        str(sum(pair.duplicates for pair in measured.pairs)),
    )


def table(rows: Iterable[Row]) -> list[str]:
    """Lines for a terminal."""
    lines = [HEAD, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return [_line(line, widths) for line in lines]


def _line(line: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        text.ljust(width) if column in TEXTS else text.rjust(width)
        for column, (text, width) in enumerate(zip(line, widths, strict=True))
    )


def section(rows: Iterable[Row]) -> list[str]:
    """Lines of Markdown: what is measured, and a table."""
    return [
        "One run of `tests/chaos/run.sh`: two hosts, three pairs of guests (same host, across hosts, routed across",
        "hosts) that ping each other every 10 ms, and a TCP connection that moves bytes all the time; none ever",
        "broke. A ping is lost if it has no answer after a second. All of it ran on one small machine, with Open",
        "vSwitch in user space.",
        "",
        "| cloud | event | watched | lost / sent | longest silence | TCP stalled |",
        "|---|---|---|---|---|---|",
        *(_markdown(row) for row in rows),
    ]


def _markdown(row: Row) -> str:
    kind, event, watched, lost, silence, stall, _ = cells(row)
    return f"| {kind} | {event} | {watched} s | {lost} | {silence} ms | {stall} ms |"

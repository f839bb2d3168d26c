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
                file.write(json.dumps(asdict(row)) + "\n")


def load_rows(file: Path) -> list[Row]:
    """Raises OSError, ValueError."""
    return [_row(json.loads(line)) for line in file.read_text().splitlines()]


def _row(document: dict[str, object]) -> Row:
    measured = document["measured"]
    if not isinstance(measured, dict):
        raise ValueError("not a row of a report")
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

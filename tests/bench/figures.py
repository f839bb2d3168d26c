"""What a bench finds: figures, shown as they come, in a table at the end, and as JSON lines."""

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import rich.box
from rich.console import Console
from rich.table import Table

LEAST_WIDTH = 120
"""Columns where no terminal says how many there are."""


class BenchError(Exception):
    """What was measured is not what was meant: flows are missing, a resource was refused."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `reference` is in the same unit, from the same run; `goal` is the most that `goal_of` may be."""

    name: str
    value: float
    unit: str
    reference: float | None = None
    goal: float | None = None
    goal_is_ratio: bool = False
    note: str = ""
    load: float = 0.0

    @property
    def ratio(self) -> float | None:
        return self.value / self.reference if self.reference else None

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without one."""
        compared = self.ratio if self.goal_is_ratio else self.value
        return None if self.goal is None or compared is None else compared <= self.goal

    def as_json(self) -> str:
        """The line of bench.jsonl."""
        ratio = self.ratio
        return json.dumps(
            {
                "name": self.name,
                "value": _rounded(self.value),
                "unit": self.unit,
                "reference": None if self.reference is None else _rounded(self.reference),
                "ratio": None if ratio is None else _rounded(ratio),
                "load": round(self.load, 2),
            }
        )


class Report:
    """Collects figures; each is appended to the file at once, so that an interrupted run keeps what it found."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._figures: list[Figure] = []
        self._started = time.monotonic()
        width = None if sys.stdout.isatty() else LEAST_WIDTH
        self._console = Console(file=sys.stdout, highlight=False, width=width)
        file.write_text("")

    def progress(self, text: str) -> None:
        """One line for whoever watches."""
        elapsed = time.monotonic() - self._started
        print(f"[{elapsed:6.1f} s, load {os.getloadavg()[0]:.2f}] {text}", file=sys.stderr, flush=True)

    def add(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        reference: float | None = None,
        goal: float | None = None,
        goal_is_ratio: bool = False,
        note: str = "",
    ) -> None:
        figure = Figure(name, value, unit, reference, goal, goal_is_ratio, note, os.getloadavg()[0])
        self._figures.append(figure)
        with self._file.open("a") as lines:
            lines.write(figure.as_json() + "\n")
        beside = "" if figure.ratio is None else f", reference {reference:.4g}, ratio {figure.ratio:.2f}"
        self.progress(f"{name}: {value:.4g} {unit}{beside}")

    def show(self) -> None:
        """The table of everything, and below it what the figures mean."""
        table = Table(box=rich.box.SIMPLE_HEAD)
        for heading in ("figure", "value", "unit", "reference", "ratio", "goal", "load"):
            numeric = heading in ("value", "reference", "ratio", "load")
            table.add_column(heading, justify="right" if numeric else "left", no_wrap=True)
        for figure in self._figures:
            table.add_row(
                figure.name,
                f"{figure.value:.4g}",
                figure.unit,
                "" if figure.reference is None else f"{figure.reference:.4g}",
                "" if figure.ratio is None else f"{figure.ratio:.2f}",
                _goal(figure),
                f"{figure.load:.1f}",
            )
        self._console.print(table)
        for figure in self._figures:
            if figure.note:
                self._console.print(f"{figure.name}: {figure.note}")


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    what = "ratio " if figure.goal_is_ratio else ""
    return f"{what}{figure.goal:g} {'met' if figure.met else 'MISSED'}"


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")

"""What the commands share: how they print and how they fail."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

MANY = 50
"""Up to so many resources are listed one by one; of more there is a summary and the exceptions."""

_PIPE_WIDTH = 200

_STYLES = {
    "SUCCESS": "green",
    "valid": "green",
    "PENDING": "yellow",
    "FAILURE": "red",
    "INVALID_ARG": "red",
    "OUT_OF_ORDER": "red",
    "invalid": "red",
    "pending": "yellow",
    "failed": "red",
}


class CommandError(click.ClickException):
    """The command could not do its work: no connection, no such file. The message is for the user."""

    exit_code = 2


def output() -> Console:
    """Standard output; wide when it is not a terminal, so that lines stay whole for other programs."""
    return Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH, highlight=False)


def errors() -> Console:
    return Console(stderr=True, highlight=False)


def verdict(word: str) -> Text:
    """A status word in its colour."""
    return Text(word, _STYLES.get(word, ""))


def line(console: Console, text: str) -> None:
    """One line, as it is: no markup, and not broken by us."""
    console.print(text, markup=False, soft_wrap=True)


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    """A table; columns that begin with '>' are numbers, aligned right."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        right = column.startswith(">")
        made.add_column(
            column.removeprefix(">"),
            justify="right" if right else "left",
            no_wrap=right,
            overflow="fold",
        )
    for row in rows:
        # Text, not str: what comes from outside must not be read as markup.
        made.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    return made

"""What a run has measured: `python -m tests.chaos REPORT` prints it, `python -m tests.chaos REPORT DOCS` also writes
the pictures and the section "What was measured" into that directory of documents."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.chaos.pictures import timeline
from tests.chaos.report import Row, load_rows, section, table

BEGIN, END = "<!-- measured: written by tests/chaos/run.sh --docs -->", "<!-- end of measured -->"
HEADING = "## What was measured"


def main(arguments: Sequence[str]) -> int:
    match arguments:
        case [report]:
            rows = load_rows(Path(report))
        case [report, docs]:
            rows = load_rows(Path(report))
            write_docs(rows, Path(docs))
        case _:
            print("usage: python -m tests.chaos REPORT [DOCS]", file=sys.stderr)
            return 2
    print("\n".join(table(rows)))
    return 0


def write_docs(rows: Sequence[Row], docs: Path) -> None:
    """A picture for each kind of cloud, and the section of docs/restart.md between its marks (at the end, if it has
    none). Raises OSError."""
    (docs / "pictures").mkdir(exist_ok=True)
    for kind in kinds(rows):
        picture = timeline(f"Lost pings: {kind}", [row for row in rows if row.kind == kind])
        (docs / "pictures" / f"losses-{kind}.svg").write_text(picture)
    file = docs / "restart.md"
    text = file.read_text()
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if rest else "\n"
    heading = [] if HEADING in before else [HEADING, ""]
    pictures = [f"![Lost pings: {kind}](pictures/losses-{kind}.svg)" for kind in kinds(rows)]
    body = "\n".join([*heading, BEGIN, "", *section(rows), "", *_spaced(pictures), END])
    file.write_text(f"{before.rstrip()}\n\n{body}{after}")


def kinds(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row.kind for row in rows))


def _spaced(lines: Iterable[str]) -> list[str]:
    return [part for line in lines for part in (line, "")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

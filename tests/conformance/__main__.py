"""`python -m tests.conformance RESULTS.json DOCUMENT.md` writes the table of a run with `--conformance-table`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.conformance.table import IncompleteError, Result, chapters, render


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m tests.conformance RESULTS.json DOCUMENT.md", file=sys.stderr)
        return 2
    source, target = map(Path, arguments)
    try:
        document = render(chapters(), [Result(**record) for record in json.loads(source.read_text())])
    except IncompleteError as fault:
        print(fault, file=sys.stderr)
        return 1
    target.write_text(document)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

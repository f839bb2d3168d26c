"""The points where faults can be injected are those that docs/restart.md tells of."""

from __future__ import annotations

from pathlib import Path

from dataplane.faults import POINTS

_DOCS = Path(__file__).parents[2] / "docs" / "restart.md"


def test_every_point_is_documented_with_its_meaning() -> None:
    lines = _DOCS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line in {f"| `{name}` | {what} |" for name, what in POINTS.items()}] == [
        f"| `{name}` | {what} |" for name, what in POINTS.items()
    ]

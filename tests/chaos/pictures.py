"""Pictures of what events cost, as SVG: one row per event, in it one lane per pair of guests, a mark per lost ping.

Plain shapes and text; colours follow what the reader's system prefers, light or dark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from tests.chaos.report import Row
from tests.chaos.traffic import INTERVAL, Losses

WIDTH = 980
LEFT, RIGHT = 400, 150
TOP, BOTTOM = 48, 28
LANE, GAP = 9, 2
ROW_GAP = 22
LEAST_MARK = 1.0
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f; }
.small { font-size: 10px; fill: #57606a; }
.title { font-size: 14px; font-weight: 600; }
.lane { fill: #dde3e9; }
.lost { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #9198a1; }
  .lane { fill: #2d333b; }
  .lost { fill: #ff7b72; }
}
"""


def timeline(title: str, rows: Sequence[Row]) -> str:
    """The whole picture. Each row has its own time axis: its whole width is as long as the event was watched."""
    parts: list[str] = []
    y = TOP
    for row in rows:
        parts += _row(row, y)
        y += _height(row) + ROW_GAP
    height = y - ROW_GAP + BOTTOM
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">\n<style>{STYLE}</style>'
    )
    legend = "one lane per pair of guests, 100 pings per second each; a mark is a ping that was not answered"
    top = [
        f'<text class="title" x="10" y="20">{escape(title)}</text>',
        f'<text class="small" x="10" y="36">{legend}</text>',
    ]
    return "\n".join([head, *top, *parts, "</svg>", ""])


def _height(row: Row) -> int:
    return len(row.measured.pairs) * (LANE + GAP) - GAP


def _row(row: Row, y: int) -> Iterator[str]:
    span = WIDTH - LEFT - RIGHT
    measured = row.measured
    middle = y + _height(row) / 2 + 4
    yield f'<text x="10" y="{middle:.1f}">{escape(row.event)}</text>'
    for number, pair in enumerate(measured.pairs):
        lane = y + number * (LANE + GAP)
        yield f'<text class="small" x="{LEFT - 6}" y="{lane + LANE}" text-anchor="end">{escape(pair.pair)}</text>'
        yield f'<rect class="lane" x="{LEFT}" y="{lane}" width="{span}" height="{LANE}"/>'
        for start, end in stretches(pair):
            x = LEFT + span * min(start / measured.seconds, 1.0)
            width = max(span * (end - start) / measured.seconds, LEAST_MARK)
            width = min(width, LEFT + span - x)
            yield f'<rect class="lost" x="{x:.1f}" y="{lane}" width="{width:.1f}" height="{LANE}"/>'
    below = y + _height(row) + 11
    yield f'<text class="small" x="{LEFT}" y="{below}">0</text>'
    yield f'<text class="small" x="{LEFT + span}" y="{below}" text-anchor="end">{measured.seconds:.1f} s</text>'
    lost = sum(pair.lost for pair in measured.pairs)
    sent = sum(pair.sent for pair in measured.pairs)
    yield f'<text x="{WIDTH - RIGHT + 12}" y="{middle:.1f}">{lost} of {sent} lost</text>'


def stretches(pair: Losses) -> list[tuple[float, float]]:
    """From when to when pings were lost, in s since the event: those that follow each other are one stretch."""
    found: list[tuple[float, float]] = []
    for at in sorted(pair.lost_at):
        if found and at - found[-1][1] <= INTERVAL:
            found[-1] = found[-1][0], at + INTERVAL
        else:
            found.append((at, at + INTERVAL))
    return found

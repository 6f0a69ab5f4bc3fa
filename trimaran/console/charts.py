"""The geometry of charts; templates draw it as SVG, so that a page needs no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

WIDTH = 1000  # the size of the plot, in the units of its view box
ROW_HEIGHT = 26
_LEAST_WIDTH = 2.0  # the minimum width of a bar, so that short intervals are visible


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A time span in the row called `row`; `label` describes it."""

    row: str
    label: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    width: float
    label: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Bands:
    """Rows of bars over one time axis."""

    rows: dict[str, list[Bar]]
    from_ms: int
    to_ms: int

    @property
    def height(self) -> int:
        return ROW_HEIGHT * len(self.rows)


def bands(spans: Sequence[TimeSpan]) -> Bands | None:
    """Returns a row for each name, in the order of names; adjacent spans become one bar. None without spans."""
    if not spans:
        return None
    spans = _joined(spans)
    start, end = min(span.from_ms for span in spans), max(span.to_ms for span in spans)
    scale = WIDTH / max(1, end - start)
    rows: dict[str, list[Bar]] = {name: [] for name in sorted({span.row for span in spans})}
    for span in spans:
        width = max(_LEAST_WIDTH, (span.to_ms - span.from_ms) * scale)
        x = min((span.from_ms - start) * scale, WIDTH - width)
        rows[span.row].append(
            Bar(round(x, 1), round(width, 1), span.label, span.from_ms, span.to_ms)
        )
    return Bands(rows, start, end)


def _joined(spans: Sequence[TimeSpan]) -> list[TimeSpan]:
    """Joins adjacent spans, in the order of time within a row; a bar has the label of its first span."""
    joined: list[TimeSpan] = []
    for each_span in sorted(spans, key=lambda span: (span.row, span.from_ms)):
        last = joined[-1] if joined else None
        if last and last.row == each_span.row and last.to_ms == each_span.from_ms:
            joined[-1] = replace(last, to_ms=each_span.to_ms)
        else:
            joined.append(each_span)
    return joined

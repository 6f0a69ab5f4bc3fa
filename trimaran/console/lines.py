"""The geometry of lines over time; templates draw them as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trimaran.console.samples import SamplePoint

WIDTH, HEIGHT = 1000, 100  # the size of the plot, in the units of its view box
COLOURS = 8  # the number of distinct colours; the ninth line has that of the first


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart; `last` is the newest value."""

    name: str
    points: Sequence[SamplePoint]
    last: float | None
    colour: int


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with values from 0 to `top`."""

    title: str
    unit: str
    lines: list[Line]
    top: float
    from_ms: int
    to_ms: int


def chart(title: str, unit: str, series: Mapping[str, Sequence[SamplePoint]]) -> Chart | None:
    """Returns a chart; None for fewer than two times."""
    times = [point.at_ms for points in series.values() for point in points]
    if not times or max(times) == min(times):
        return None
    start, end = min(times), max(times)
    known = [
        point.value for points in series.values() for point in points if point.value is not None
    ]
    top = round_up(max(known, default=0.0), unit)
    lines = [
        Line(name, points, points[-1].value, place % COLOURS)
        for place, (name, points) in enumerate(series.items())
        if points
    ]
    return Chart(title, unit, lines, top, start, end)


def round_up(value: float, unit: str) -> float:
    """Rounds up to 1, 2 or 5 times a power of ten, or of 1024 for bytes, for a round number on the axis. Returns 1 for
    zero.
    """
    if value <= 0:
        return 1.0
    whole = 1.0
    while unit == "bytes/s" and value / whole >= 1024:
        whole *= 1024
    power = 10.0 ** math.floor(math.log10(value / whole))
    # The last step is needed if the logarithm was rounded down.
    return next(step * power * whole for step in (1, 2, 5, 10, 20) if step * power * whole >= value)


def summed(series: Mapping[str, Sequence[SamplePoint]]) -> list[SamplePoint]:
    """Returns the sum over all nodes at each time; None if no node responded."""
    return [SamplePoint(at, sum(values) if values else None) for at, values in _by_time(series)]


def worst(series: Mapping[str, Sequence[SamplePoint]]) -> list[SamplePoint]:
    """Returns the largest value of all nodes at each time; None if no node responded."""
    return [SamplePoint(at, max(values, default=None)) for at, values in _by_time(series)]


def _by_time(series: Mapping[str, Sequence[SamplePoint]]) -> Iterator[tuple[int, list[float]]]:
    found: dict[int, list[float]] = {}
    for points in series.values():
        for point in points:
            values = found.setdefault(point.at_ms, [])
            if point.value is not None:
                values.append(point.value)
    yield from sorted(found.items())


def path_of(line: Line, of: Chart) -> str:
    """Returns the lines as SVG, with gaps for times at which no node responded."""
    words, is_down = [], False
    for point in line.points:
        if point.value is None:
            is_down = False
            continue
        x = (point.at_ms - of.from_ms) * WIDTH / (of.to_ms - of.from_ms)
        y = HEIGHT - point.value * HEIGHT / of.top
        words.append(f"{'L' if is_down else 'M'}{x:.1f} {y:.1f}")
        is_down = True
    return "".join(words)

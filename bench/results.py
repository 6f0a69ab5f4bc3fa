"""Figures, and the table that compares the two systems."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """A measured number of a system. `better` is the better direction."""

    bench: str
    name: str
    unit: str
    better: str  # "higher" or "lower"
    system: str  # "ours" or "kafka"
    value: float


def print_table(figures: Sequence[Figure]) -> None:
    """Prints a line for each figure: ours, Kafka's, and the ratio in our favour."""
    print(f"{'bench':<24}{'figure':<44}{'unit':<10}{'ours':>10}{'Kafka':>10}{'× better':>10}")
    for bench, name, unit, mine, theirs, ratio in _rows(figures):
        print(f"{bench:<24}{name:<44}{unit:<10}{mine:>10}{theirs:>10}{ratio:>10}")


def print_markdown(figures: Sequence[Figure]) -> None:
    """Prints the same table for `docs/benchmarks.md`."""
    print("| | | unit | ours | Kafka 4.4 | × |\n|---|---|---|---|---|---|")
    for row in _rows(figures):
        print("| " + " | ".join(row) + " |")


def _rows(figures: Sequence[Figure]) -> Iterator[tuple[str, ...]]:
    """Returns bench, figure, unit, ours, Kafka's, and the ratio in our favour."""
    keys = dict.fromkeys((f.bench, f.name, f.unit, f.better) for f in figures)
    value = {(f.bench, f.name, f.system): f.value for f in figures}
    for bench, name, unit, better in keys:
        mine, theirs = value.get((bench, name, "ours")), value.get((bench, name, "kafka"))
        yield bench, name, unit, _text(mine), _text(theirs), _ratio(mine, theirs, better)


def _ratio(mine: float | None, theirs: float | None, better: str) -> str:
    if not mine or not theirs:
        return "-"
    return f"{mine / theirs if better == 'higher' else theirs / mine:.2f}"


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"

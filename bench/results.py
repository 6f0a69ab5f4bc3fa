"""Figures and the table that sets the two systems side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    """One measured number of one system. `better` says which direction wins."""

    bench: str
    name: str
    unit: str
    better: str  # "higher" or "lower"
    system: str  # "ours" or "kafka"
    value: float


def print_table(figures: Sequence[Figure]) -> None:
    """Prints a line a figure: ours, Kafka's, and how many times better ours is."""
    print(f"{'bench':<24}{'figure':<44}{'unit':<10}{'ours':>10}{'Kafka':>10}{'× better':>10}")
    for bench, name, unit, mine, theirs, ratio in _rows(figures):
        print(f"{bench:<24}{name:<44}{unit:<10}{mine:>10}{theirs:>10}{ratio:>10}")


def print_markdown(figures: Sequence[Figure]) -> None:
    """The same for `docs/benchmarks.md`."""
    print("| | | unit | ours | Kafka 4.3 | × |\n|---|---|---|---|---|---|")
    for row in _rows(figures):
        print("| " + " | ".join(row) + " |")


def _rows(figures: Sequence[Figure]) -> Iterator[tuple[str, ...]]:
    """Bench, figure, unit, ours, Kafka's, how many times better ours is."""
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

"""Figures and the table that sets the two systems side by side."""

from __future__ import annotations

from collections.abc import Sequence
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
    keys = list(dict.fromkeys((f.bench, f.name, f.unit, f.better) for f in figures))
    value = {(f.bench, f.name, f.system): f.value for f in figures}
    print(f"{'bench':<24}{'figure':<44}{'unit':<10}{'ours':>10}{'Kafka':>10}{'× better':>10}")
    for bench, name, unit, better in keys:
        mine, theirs = value.get((bench, name, "ours")), value.get((bench, name, "kafka"))
        ratio = _ratio(mine, theirs, better)
        print(f"{bench:<24}{name:<44}{unit:<10}{_text(mine):>10}{_text(theirs):>10}{ratio:>10}")


def _ratio(mine: float | None, theirs: float | None, better: str) -> str:
    if not mine or not theirs:
        return "-"
    return f"{mine / theirs if better == 'higher' else theirs / mine:.2f}"


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"

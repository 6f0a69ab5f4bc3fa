"""How two copies of a log differ, for each pair of nodes: a matrix, green where they agree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from trimaran.spark.analyses.plots import GREEN, RED, figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

NODES_MAX = 60  # more cannot be told apart


def pair_matrix(kind: str, pairs: Iterable[tuple[int, int, int]]) -> go.Figure:
    """`pairs`: two node ids each, and how many batches differ; `kind` is what a node is called."""
    pairs = list(pairs)
    nodes = sorted({node for pair in pairs for node in pair[:2]})[:NODES_MAX]
    at = {node: i for i, node in enumerate(nodes)}
    cells: list[list[int | None]] = [[None] * len(nodes) for _ in nodes]
    for a, b, different in pairs:
        if a in at and b in at:
            cells[at[a]][at[b]] = cells[at[b]][at[a]] = int(different)
    names = [f"{kind} {node}" for node in nodes]
    made = figure(height=180 + 26 * len(nodes))
    made.add_heatmap(
        x=names,
        y=names,
        z=cells,
        colorscale=[[0, GREEN], [1e-9, RED], [1, RED]],
        zmin=0,
        zmax=1,
        showscale=False,
        text=[["" if n is None else n for n in line] for line in cells],
        texttemplate="%{text}",
        hoverongaps=False,
    )
    return made

"""The matrix of how much copies of a log differ."""

from trimaran.spark.analyses.pair_matrix import NODES_MAX, pair_matrix


def cells_of(figure):
    [heatmap] = figure.data
    return list(heatmap.x), [list(line) for line in heatmap.z], [list(t) for t in heatmap.text]


def test_each_pair_stands_on_both_sides_of_the_diagonal():
    names, cells, texts = cells_of(pair_matrix("broker", [(3, 11, 0), (3, 7, 2)]))
    assert names == ["broker 3", "broker 7", "broker 11"]
    assert cells == [[None, 2, 0], [2, None, None], [0, None, None]]
    assert texts[0] == ["", 2, 0]


def test_more_nodes_than_can_be_told_apart_are_left_out():
    pairs = [(1, other, 1) for other in range(2, NODES_MAX + 5)]
    names, cells, _ = cells_of(pair_matrix("node", pairs))
    assert names[-1] == f"node {NODES_MAX}"
    assert cells[0] == [None] + [1] * (NODES_MAX - 1)

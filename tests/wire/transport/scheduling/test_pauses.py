"""Pauses of a loop after every n-th item."""

import pytest

from trimaran.wire.transport.scheduling.pauses import pauses


def loop(items, pause):
    for item in range(items):
        yield item
        yield from next(pause)


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        (1, [0, None, 1, None, 2, None, 3, None, 4, None]),
        (2, [0, 1, None, 2, 3, None, 4]),
        (3, [0, 1, 2, None, 3, 4]),
        (6, [0, 1, 2, 3, 4]),
    ],
)
def test_loop_pauses_after_every_nth_item(every, steps):
    assert list(loop(5, pauses(every))) == steps


def test_loops_count_separately_unless_they_share():
    first, second = pauses(3), pauses(3)
    assert list(loop(2, first)) == [0, 1]
    assert list(loop(2, second)) == [0, 1]
    assert list(loop(2, first)) == [0, None, 1]

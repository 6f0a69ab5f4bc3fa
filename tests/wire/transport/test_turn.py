"""How long a connection keeps the loop when others have as much to do."""

import pytest

from wire.transport.turn import Turn

LONGEST, SHORTEST = 0.002, 0.0002


def rounds(count):
    """The time of a round of so many connections that never have nothing to do, after a while."""
    turns = [Turn() for _ in range(count)]
    for _ in range(20):
        whole = sum(one.seconds for one in turns)
        for one in turns:
            one.hand_over(whole - one.seconds)
    return sum(one.seconds for one in turns)


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_many_share_a_few_milliseconds(count):
    assert rounds(count) <= 2 * LONGEST + count * SHORTEST


def test_a_turn_is_never_too_short_to_do_something():
    assert rounds(100) == pytest.approx(100 * SHORTEST)


def test_who_is_alone_soon_has_the_longest_turn():
    turn = Turn()
    assert turn.seconds < LONGEST
    assert [turn.hand_over(0.0001) for _ in range(3)][-1] == LONGEST


def test_a_long_wait_makes_the_next_turn_shorter():
    turn = Turn()
    before = turn.seconds
    assert turn.hand_over(0.05) == before / 2

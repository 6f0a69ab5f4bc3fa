"""The terms of leaders are derived from the metadata log; a term that a broker may not know yet is unknown."""

import pytest

from tests.chaos.shares.leaders import CLOCK_SECONDS, LEARN_SECONDS, Reign, Reigns
from tests.share_history import Decision, Delivery, History, Kind, Place, Result

REIGNS = Reigns([(0, Reign(10, 11, 4)), (0, Reign(30, 12, 5)), (1, Reign(0, 13, 0))])
KNOWN = 10 + LEARN_SECONDS


@pytest.mark.parametrize(
    ("leader", "sent", "received", "term"),
    [
        (11, KNOWN, 20, 4),
        (11, KNOWN - 0.1, 20, None),
        (12, KNOWN, 20, None),
        (11, 29, 30 - CLOCK_SECONDS, 4),
        (11, 29, 30, None),
        (12, 36, 90, 5),
        (12, 33, 90, None),
        (11, 36, 90, None),
    ],
)
def test_term_is_known_within_one_leadership(leader, sent, received, term):
    assert REIGNS.term(0, leader, sent, received) == term


@pytest.mark.parametrize(
    ("leader", "sent", "is_stale"),
    [
        (11, 20, False),
        (12, 20, True),
        (11, 30 + CLOCK_SECONDS, True),
        (12, 31, False),
        (11, 9, True),
    ],
)
def test_former_leader_is_stale(leader, sent, is_stale):
    assert REIGNS.is_stale(0, leader, sent) is is_stale


def test_nodes_of_history_are_replaced_by_terms():
    place = Place(0, 7)
    delivery = Delivery("m", place, 1, 20, 21, b"v", 11)
    old = delivery._replace(sent=31, received=32)
    decisions = [
        Decision("m", place, Kind.ACCEPT, Result.CONFIRMED, 22, 23, 11),
        Decision("m", place, Kind.ACCEPT, Result.UNKNOWN, 22),
    ]
    stamped = REIGNS.stamped(History([delivery, old], decisions))
    assert stamped.deliveries == [
        delivery._replace(term=4),
        old._replace(term=None, is_stale=True),
    ]
    assert stamped.decisions == [decisions[0]._replace(term=4), decisions[1]]

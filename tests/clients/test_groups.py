"""Groups of two members, of one client or of two: shares, commits, a member that leaves, and resumption by a third
client.
"""

import pytest

from tests.clients.conftest import ADAPTERS
from tests.clients.records import Sent
from tests.cluster.processes import until

WHAT = "classic groups"

PARTITIONS = 4
KINDS = list(ADAPTERS)
PAIRS = [(kind, two) for kind in KINDS for two in KINDS]


def sent(start, end):
    return [Sent(p, b"%d" % number) for number in range(start, end) for p in range(PARTITIONS)]


def poll_until(members, found, condition, what):
    """Polls the members in turn, which also lets them take part in a rebalance."""

    def round_of_polls():
        for member in members:
            found.extend((r.partition, r.offset) for r in member.poll())
        return condition()

    try:
        until(round_of_polls, what, seconds=30)
    except AssertionError as error:
        shares = [sorted(member.assignment()) for member in members]
        raise AssertionError(f"{error}: shares {shares}, {len(found)} records") from None


def places(start, end):
    return {(p, number) for number in range(start, end) for p in range(PARTITIONS)}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_group_shares_shrinks_and_resumes_across_clients(clients, cluster, first, second):
    topic = group = f"group-{first}-{second}"
    third = next(kind for kind in KINDS[::-1] if kind not in {first, second})
    clients[first].create_topic(topic, PARTITIONS, {})
    cluster.wait_for_topic(topic)
    found = []
    with clients[first].member(group, topic) as one:
        poll_until([one], found, lambda: len(one.assignment()) == PARTITIONS, "all to the only one")
        with clients[second].member(group, topic) as two:
            both = [one, two]
            poll_until(
                both,
                found,
                lambda: sorted(len(m.assignment()) for m in both) == [2, 2],
                "two each",
            )
            assert one.assignment() | two.assignment() == set(range(PARTITIONS))
            clients[third].produce(topic, sent(0, 10))
            poll_until(both, found, lambda: places(0, 10) <= set(found), "forty records")
            two.commit()
            one.commit()
            two.leave()
        poll_until([one], found, lambda: len(one.assignment()) == PARTITIONS, "all to who stays")
        clients[third].produce(topic, sent(10, 15))
        poll_until([one], found, lambda: places(0, 15) <= set(found), "sixty records")
        one.commit()
        one.leave()
    assert set(found) == places(
        0, 15
    )  # records may be read again after a rebalance before a commit, but no others
    assert clients[third].committed(group, topic, PARTITIONS) == [15] * PARTITIONS
    clients[first].produce(topic, sent(15, 18))
    resumed = []
    with clients[third].member(group, topic) as one:
        poll_until([one], resumed, lambda: places(15, 18) <= set(resumed), "what came since")
    assert set(resumed) == places(15, 18)

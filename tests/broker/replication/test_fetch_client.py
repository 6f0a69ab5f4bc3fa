"""The follower's side of a fetch session: after every request the leader has exactly the state that a full request
would establish.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.broker.partitions.follower import FetchPosition
from trimaran.broker.replication.fetch_client import (
    BACKOFF_SECONDS,
    FetchClient,
    FetchSettings,
)

SETTINGS = FetchSettings(12, lambda: 112, 500, 1, 1 << 20, 10 << 20)


@dataclass
class Follower:
    """The part of `PartitionFollower` that the client uses."""

    epoch: int = 0
    offset: int = 0
    ended: bool = False

    def position(self) -> FetchPosition:
        return FetchPosition(self.offset, self.epoch, 0)


@dataclass
class Leader:
    """The session as the leader sees it."""

    known: dict[Any, tuple[int, int]] = field(default_factory=dict)
    epoch: int = 0

    def take(self, request) -> int:
        if request.session_epoch == 0:
            self.known, self.epoch = {}, 0
        assert request.session_epoch == self.epoch
        self.epoch += 1
        for topic in request.topics:
            for wanted in topic.partitions:
                self.known[topic.topic_id, wanted.partition] = (
                    wanted.current_leader_epoch,
                    wanted.fetch_offset,
                )
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                del self.known[topic.topic_id, index]  # the partition must be known
        return 7


KEYS = st.integers(0, 3).map(lambda index: (b"t" * 16, index))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS),
        st.tuples(st.just("remove"), KEYS),
        st.tuples(st.just("append"), KEYS),
        st.tuples(st.just("refuse"), KEYS),
        st.tuples(st.just("wait"), st.floats(0.001, 2)),
        st.tuples(st.just("reconnect"), st.none()),
        st.tuples(st.just("send"), st.none()),
    ),
    max_size=40,
)


@given(steps=STEPS, keeps_sessions=st.booleans())
def test_leader_learns_exactly_the_changes(steps, keeps_sessions):
    client, leader, now = FetchClient(SETTINGS), Leader(), 0.0
    followers: dict[Any, Follower] = {}
    paused: dict[Any, float] = {}
    epoch = 0
    for kind, value in [*steps, ("wait", 2.0), ("send", None)]:
        if kind == "add":
            epoch += 1
            followers[value] = Follower(epoch)
            paused.pop(value, None)
            client.add(value, followers[value])
        elif kind == "remove":
            followers.pop(value, None)
            paused.pop(value, None)
            client.remove(value)
        elif kind == "append" and value in followers and value not in paused:
            followers[value].offset += 1
            client.mark_changed(client.find(value))
        elif kind == "refuse" and value in followers and value not in paused:
            followed = client.find(value)
            paused[value] = now + client.backoff_of(followed)
            client.delay(followed, now)
        elif kind == "wait":
            now += value
        elif kind == "reconnect":
            client.begin()
        elif kind == "send":
            paused = {key: due for key, due in paused.items() if due > now}
            request = client.next_request(now, in_flight=False)
            expected = {
                key: (follower.epoch, follower.offset)
                for key, follower in followers.items()
                if key not in paused
            }
            if request is None:
                assert not expected
                continue
            session_id = leader.take(request)
            assert leader.known == expected
            client.answered(session_id if keeps_sessions else 0)


def test_idle_departure_is_sent_with_next_request():
    """Otherwise the leader's session keeps the partition, and each append to it ends a long poll."""
    client = FetchClient(SETTINGS)
    client.add((b"t" * 16, 0), Follower())
    client.next_request(0.0, in_flight=False)
    client.answered(7)
    client.remove((b"t" * 16, 0))
    assert client.next_request(0.0, in_flight=False) is None
    client.add((b"t" * 16, 1), Follower())
    request = client.next_request(0.0, in_flight=False)
    assert request.session_epoch == 1
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0]]


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize(
    "late", [FetchClient.mark_changed, lambda *it: FetchClient.delay(*it, 0.0)]
)
def test_answer_for_departed_partition_is_ignored(late, is_back):
    """The leader had a query for the partition's offsets when the partition was removed: the response is useless, even
    if the partition came back.
    """
    client, key = FetchClient(SETTINGS), (b"t" * 16, 0)
    client.add(key, Follower())
    left = client.find(key)
    client.next_request(0.0, in_flight=False)
    client.answered(7)
    client.remove(key)
    if is_back:
        client.add(key, Follower(epoch=1))
    late(client, left)
    assert client.next_due == float("inf")
    request = client.next_request(2.0, in_flight=False)
    assert (request is not None) is is_back


def test_pauses_double_up_to_a_bound():
    client = FetchClient(SETTINGS)
    client.add((b"t" * 16, 0), Follower())
    followed = client.find((b"t" * 16, 0))
    for _ in range(20):
        client.delay(followed, 0.0)
    assert client.next_due == client.backoff_of(followed) == SETTINGS.backoff_seconds_max


@pytest.mark.parametrize(("backoff", "last"), [(0.3, 0.3), (0.0, BACKOFF_SECONDS)])
def test_configured_maximum_pause_is_at_least_first(backoff, last):
    client = FetchClient(replace(SETTINGS, backoff_seconds_max=backoff))
    client.add((b"t" * 16, 0), Follower())
    followed = client.find((b"t" * 16, 0))
    for _ in range(20):
        client.delay(followed, 0.0)
    assert client.backoff_of(followed) == last


def test_outstanding_response_is_followed_only_by_changes():
    client = FetchClient(SETTINGS)
    client.add((b"t" * 16, 0), Follower())
    assert client.next_request(0.0, in_flight=False) is not None
    client.answered(7)
    assert client.next_request(0.0, in_flight=True) is None
    client.add((b"t" * 16, 1), Follower())
    request = client.next_request(0.0, in_flight=True)
    assert [partition.partition for topic in request.topics for partition in topic.partitions] == [
        1
    ]


def test_new_registration_resends_all_positions():
    """KIP-903: the leader's state belongs to the old broker epoch."""
    broker_epoch = 112
    client = FetchClient(FetchSettings(12, lambda: broker_epoch, 500, 1, 1 << 20, 10 << 20))
    for index in range(2):
        client.add((b"t" * 16, index), Follower())

    def told():
        request = client.next_request(0.0, in_flight=False)
        client.answered(7)
        named = [partition.partition for topic in request.topics for partition in topic.partitions]
        return request.replica_state.replica_epoch, named

    assert told() == (112, [0, 1])
    assert told() == (112, [])
    broker_epoch = 300
    assert told() == (300, [0, 1])
    assert told() == (300, [])

"""The rules of the follower's side of a fetch session, one test each: the content of the next request, and when none is
sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest

from trimaran.broker.partitions.follower import FetchPosition
from trimaran.broker.replication.fetch_client import (
    BACKOFF_SECONDS,
    HELD_BACK_SECONDS_MAX,
    FetchClient,
    FetchSettings,
)
from trimaran.node.quotas.replication_throttle import ReplicationThrottle
from trimaran.wire.identity import TopicPartition
from trimaran.wire.transport.metrics.rate import Windows

SETTINGS = FetchSettings(
    12,
    lambda: 112,
    wait_max_ms=500,
    min_bytes=3,
    partition_bytes_max=1 << 20,
    response_bytes_max=10 << 20,
)
SESSION = 7


@dataclass
class Follower:
    """The part of `PartitionFollower` that the client uses."""

    epoch: int = 4
    offset: int = 0
    ended: bool = False
    replica: SimpleNamespace | None = None

    def position(self) -> FetchPosition:
        return FetchPosition(self.offset, 3, 1)


def key(index=0, name=b"t"):
    return (name * 16, index)


@pytest.fixture
def client():
    return FetchClient(SETTINGS)


def ask(client, now=0.0, *, in_flight=False, session_id=SESSION):
    """Returns the next request, after it was answered."""
    request = client.next_request(now, in_flight=in_flight)
    if request is not None:
        client.answered(session_id)
    return request


def named(request):
    return [
        (topic.topic_id[:1], partition.partition, partition.fetch_offset)
        for topic in request.topics
        for partition in topic.partitions
    ]


def forgotten(request):
    return [
        (topic.topic_id[:1], index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]


def test_request_contains_broker_and_positions(client):
    client.add(key(5), Follower(offset=9))
    request = client.next_request(0.0, in_flight=False)
    state = request.replica_state
    assert (state.replica_id, state.replica_epoch) == (12, 112)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 3, 10 << 20)
    assert (request.session_id, request.session_epoch) == (0, 0)
    [topic] = request.topics
    [one] = topic.partitions
    assert (topic.topic_id, one.partition, one.partition_max_bytes) == (key()[0], 5, 1 << 20)
    assert (one.current_leader_epoch, one.fetch_offset) == (4, 9)
    assert (one.last_fetched_epoch, one.log_start_offset) == (3, 1)


def test_session_counts_requests_and_restarts_on_reconnect(client):
    client.add(key(), Follower())
    told = []
    for number in range(3):
        assert client.requests == number
        request = ask(client)
        told.append((request.session_id, request.session_epoch))
    client.begin()
    request = ask(client)
    told.append((request.session_id, request.session_epoch))
    assert told == [(0, 0), (SESSION, 1), (SESSION, 2), (0, 0)]
    assert client.requests == 4, "of all sessions"


def test_sessionless_request_names_every_partition(client):
    """The leader's cache is full."""
    for index in (0, 1):
        client.add(key(index), Follower())
    for _ in range(2):
        request = ask(client, session_id=0)
        assert (request.session_id, request.session_epoch) == (0, 0)
        assert named(request) == [(b"t", 0, 0), (b"t", 1, 0)]


def test_partitions_are_named_topic_by_topic(client):
    for item in (key(0), key(0, b"u"), key(1)):
        client.add(item, Follower())
    request = ask(client)
    assert named(request) == [(b"t", 0, 0), (b"t", 1, 0), (b"u", 0, 0)]
    assert [len(topic.partitions) for topic in request.topics] == [2, 1]
    for item in (key(0), key(0, b"u"), key(1)):
        client.remove(item)
    client.add(key(9), Follower())
    request = ask(client)
    assert [topic.partitions for topic in request.forgotten_topics_data] == [[0, 1], [0]]


def test_unchanged_session_sends_empty_long_poll(client):
    client.add(key(), Follower())
    ask(client)
    client.mark_changed(client.find(key()))
    request = ask(client)
    assert (named(request), forgotten(request)) == ([], [])


def test_unmarked_partition_is_not_examined(client):
    """50,000 partitions may be followed, of which only a few change."""
    follower = Follower()
    client.add(key(), follower)
    ask(client)
    follower.offset = 5
    assert named(ask(client)) == []
    client.mark_changed(client.find(key()))
    assert named(ask(client)) == [(b"t", 0, 5)]


def test_no_request_without_followed_partitions(client):
    assert ask(client) is None
    client.add(key(), Follower())
    client.remove(key())
    assert len(client) == 0
    assert ask(client) is None


def test_changed_position_or_epoch_is_sent(client):
    client.add(key(), Follower())
    ask(client)
    client.find(key()).follower.offset = 2
    client.mark_changed(client.find(key()))
    assert named(ask(client)) == [(b"t", 0, 2)]
    client.add(key(), Follower(epoch=5, offset=2))
    request = ask(client)
    assert request.topics[0].partitions[0].current_leader_epoch == 5


def test_ended_epoch_is_neither_requested_nor_found(client):
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    client.find(key(0)).follower.ended = True
    assert client.find(key(0)) is None
    assert client.find(key(2)) is None
    assert named(ask(client)) == [(b"t", 1, 0)]


def test_delayed_partition_leaves_session_and_returns(client):
    for index in (0, 1):
        client.add(key(index), Follower())
    ask(client)
    client.delay(client.find(key()), 10.0)
    assert client.next_due == 10.0 + BACKOFF_SECONDS
    request = ask(client, 10.0)
    assert (named(request), forgotten(request)) == ([], [(b"t", 0)])
    request = ask(client, 10.0 + BACKOFF_SECONDS / 2)
    assert (named(request), forgotten(request)) == ([], [])
    request = ask(client, 10.0 + BACKOFF_SECONDS)
    assert (named(request), forgotten(request)) == ([(b"t", 0, 0)], [])
    assert client.next_due == float("inf")


def test_early_return_cancels_unsent_departure(client):
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    ask(client)
    client.delay(client.find(key(0)), 0.0)
    request = ask(client, 1.0)
    assert forgotten(request) == []
    client.remove(key(0))
    client.add(key(0), Follower(offset=3))
    request = ask(client, 1.0)
    assert (named(request), forgotten(request)) == ([(b"t", 0, 3)], [])


def test_changes_of_delayed_partition_are_sent_later(client):
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    ask(client)
    followed = client.find(key(0))
    client.delay(followed, 0.0)
    followed.follower.offset = 3
    client.mark_changed(followed)
    assert named(ask(client, 0.0)) == []
    assert named(ask(client, 1.0)) == [(b"t", 0, 3)]


def test_new_epoch_is_not_delayed(client):
    client.add(key(0), Follower())
    ask(client)
    client.delay(client.find(key(0)), 0.0)
    client.add(key(0), Follower(epoch=5))
    assert client.next_due == float("inf")
    assert named(ask(client, 0.0)) == [(b"t", 0, 0)]


def test_new_connection_omits_delayed_partition(client):
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    client.delay(client.find(key(0)), 0.0)
    client.begin()
    assert named(ask(client, 0.0)) == [(b"t", 1, 0)]


def test_partition_removed_while_delayed_stays_away(client):
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    ask(client)
    client.delay(client.find(key(0)), 0.0)
    client.remove(key(0))
    assert client.next_due == float("inf")
    request = ask(client, 99.0)
    assert (named(request), forgotten(request)) == ([], [(b"t", 0)])


def test_unannounced_partition_needs_no_forgetting(client):
    client.add(key(0), Follower())
    ask(client)
    client.add(key(1), Follower())
    client.remove(key(1))
    request = ask(client)
    assert (named(request), forgotten(request)) == ([], [])


def test_new_connection_forgets_no_departed_partition(client):
    """The new session does not contain it."""
    for index in (0, 1):
        client.add(key(index), Follower())
    ask(client)
    client.remove(key(0))
    client.begin()
    request = ask(client)
    assert (named(request), forgotten(request)) == ([(b"t", 1, 0)], [])


def test_earliest_deadline_is_awaited(client):
    for index in (0, 1):
        client.add(key(index), Follower())
    client.delay(client.find(key(0)), 5.0)
    client.delay(client.find(key(1)), 1.0)
    assert client.next_due == 1.0 + BACKOFF_SECONDS


def test_departure_waits_for_outstanding_answer(client):
    """Until the next request the leader still reads the removed partition, which costs less than another request."""
    for index in (0, 1):
        client.add(key(index), Follower())
    ask(client)
    client.remove(key(0))
    assert ask(client, in_flight=True) is None
    client.add(key(2), Follower())
    request = ask(client, in_flight=True)
    assert (named(request), forgotten(request)) == ([(b"t", 2, 0)], [(b"t", 0)])


def test_answer_to_corrected_position_is_ignored(client):
    follower = Follower()
    client.add(key(0), follower)
    ask(client)
    ask(client)
    followed, before = client.find(key(0)), client.requests
    follower.offset -= 1
    client.corrected(followed)
    client.mark_changed(followed)
    assert client.find_asked(key(0), before) is None
    assert named(ask(client)) == [(b"t", 0, follower.offset)]
    assert client.find_asked(key(0), before) is None
    assert client.find_asked(key(0), client.requests) is followed


def test_answer_belongs_to_epoch_of_its_request(client):
    """KAFKA-18723: it must not count for the partition's next epoch."""
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    assert client.find_asked(key(0), 1) is None, "nobody has asked yet"
    ask(client)
    assert client.find_asked(key(0), client.requests) is client.find(key(0))
    assert client.find_asked(key(2), client.requests) is None
    client.remove(key(0))
    client.add(key(0), Follower(epoch=5))
    before = client.requests
    ask(client, in_flight=True)
    client.mark_changed(client.find(key(0)))
    assert ask(client, in_flight=True) is None
    assert client.find_asked(key(0), before) is None
    assert client.find_asked(key(1), before) is not None
    assert client.find_asked(key(0), client.requests) is client.find(key(0))
    ask(client)
    assert client.find_asked(key(0), client.requests - 1) is not None


def test_identical_restart_needs_no_request(client):
    """The replica has moved to another directory; the leader need not know."""
    client.add(key(0), Follower())
    ask(client)
    client.remove(key(0))
    client.add(key(0), Follower())
    assert ask(client, in_flight=True) is None
    assert client.find_asked(key(0), client.requests) is client.find(key(0))


def test_dropped_data_begins_a_new_session(client):
    """The leader does not repeat a watermark within a session."""
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    ask(client)
    client.remove(key(0))
    client.dropped(key(0))
    client.add(key(0), Follower())
    assert ask(client, in_flight=True) is None
    request = ask(client)
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert named(request) == [(b"t", 1, 0), (b"t", 0, 0)]
    request = ask(client)
    assert (request.session_id, named(request)) == (SESSION, []), "once"


@pytest.mark.parametrize("has_session", [True, False])
def test_dropped_data_of_forgotten_partition_keeps_session(client, has_session):
    client.add(key(0), Follower())
    client.add(key(1), Follower())
    if has_session:
        ask(client)
    client.remove(key(0))
    client.dropped(key(0))
    ask(client)
    client.add(key(0), Follower())
    request = ask(client)
    assert (request.session_id, named(request)) == (SESSION, [(b"t", 0, 0)])


def test_pauses_double_and_reset_on_success(client):
    client.add(key(), Follower())
    followed = client.find(key())
    followed.last_error, followed.repeats = "no good", 2
    pauses = []
    for _ in range(3):
        pauses.append(client.backoff_of(followed))
        client.delay(followed, 0.0)
    assert pauses == [BACKOFF_SECONDS, 2 * BACKOFF_SECONDS, 4 * BACKOFF_SECONDS]
    followed.succeeded()
    assert (followed.failures, followed.last_error, followed.repeats) == (0, "", 0)


def test_new_registration_resends_only_followed_partitions():
    epoch = 112
    client = FetchClient(replace(SETTINGS, broker_epoch=lambda: epoch))
    for index in range(3):
        client.add(key(index), Follower())
    ask(client)
    client.remove(key(0))
    client.delay(client.find(key(1)), 0.0)
    epoch = 300
    request = ask(client, 0.0)
    assert (named(request), forgotten(request)) == ([(b"t", 2, 0)], [(b"t", 0), (b"t", 1)])
    assert request.replica_state.replica_epoch == 300


# -- throttles


@pytest.fixture
def throttle():
    made = ReplicationThrottle(Windows())
    made.bound = 100.0
    made.set_replicas("t", [0, 1, 2])
    return made


@pytest.fixture
def throttled(throttle):
    """Returns a client whose partitions 0 to 3 are followed and known to the leader; all except 3 are throttled."""
    client = FetchClient(replace(SETTINGS, throttle=throttle))
    for index in range(4):
        client.add(
            key(index),
            Follower(replica=SimpleNamespace(topic_partition=TopicPartition("t", index))),
        )
    ask(client)
    return client


def took(client, index, size, now, *, lags=True):
    """Notes that records of a partition arrived."""
    followed = client.find(key(index))
    client.received(followed, size, now)
    followed.follower.offset += 1
    followed.lags = lags
    client.mark_changed(followed)


def test_throttle_removes_lagging_partitions_from_session(throttled):
    took(throttled, 0, 100, 1.0)
    took(throttled, 1, 50, 1.0, lags=False)
    took(throttled, 3, 9000, 1.0)
    request = ask(throttled, 1.0)
    assert named(request) == [(b"t", 1, 1), (b"t", 3, 1)]
    assert forgotten(request) == [(b"t", 0), (b"t", 2)]
    assert throttled.next_due == 1.0 + HELD_BACK_SECONDS_MAX
    assert named(ask(throttled, 2.0)) == []
    assert throttled.next_due == pytest.approx(2.5)
    assert named(ask(throttled, 2.5)) == [(b"t", 0, 1), (b"t", 2, 0)]


def test_partition_arriving_while_throttled_waits(throttled):
    took(throttled, 0, 150, 1.0)
    ask(throttled, 1.0)
    throttled.remove(key(2))
    throttled.add(key(2), Follower(replica=SimpleNamespace(topic_partition=TopicPartition("t", 2))))
    assert named(ask(throttled, 1.1)) == []
    assert (b"t", 2, 0) in named(ask(throttled, 2.5))


def test_throttled_partition_is_reconsidered_soon(throttled, throttle):
    took(throttled, 0, 100_000, 1.0)
    ask(throttled, 1.0)
    assert throttled.next_due == 1.0 + HELD_BACK_SECONDS_MAX
    throttle.bound = 1e9
    assert (b"t", 0, 1) in named(ask(throttled, throttled.next_due))


def test_throttled_partition_may_be_delayed_again(throttled):
    took(throttled, 0, 1000, 0.0)
    ask(throttled, 0.0)
    for second in range(1, 10):
        assert (b"t", 0, 1) not in named(ask(throttled, float(second)))
    assert (b"t", 0, 1) in named(ask(throttled, 10.0))


def test_removed_throttle_releases_all_partitions(throttled, throttle):
    took(throttled, 0, 1000, 0.0)
    ask(throttled, 0.0)
    throttle.set_replicas("t", [])
    assert named(ask(throttled, HELD_BACK_SECONDS_MAX))[0] == (b"t", 0, 1)


def test_new_throttle_removes_partitions_already_in_session(throttle):
    """This does not need a change of those partitions; and one of them may have left meanwhile."""
    throttle.set_replicas("t", [])
    client = FetchClient(replace(SETTINGS, throttle=throttle))
    for index in range(3):
        client.add(
            key(index),
            Follower(replica=SimpleNamespace(topic_partition=TopicPartition("t", index))),
        )
    ask(client)
    throttle.set_replicas("t", [0, 1])
    took(client, 0, 150, 1.0)
    client.remove(key(1))
    client.add(key(3), Follower(replica=SimpleNamespace(topic_partition=TopicPartition("t", 3))))
    request = ask(client, 1.0)
    assert (named(request), forgotten(request)) == ([(b"t", 3, 0)], [(b"t", 1), (b"t", 0)])


def test_renewed_throttle_removes_returned_partitions_again(throttled, throttle):
    took(throttled, 0, 1000, 0.0)
    ask(throttled, 0.0)
    throttle.set_replicas("t", [])
    assert named(ask(throttled, 1.0)) == [(b"t", 0, 1), (b"t", 1, 0), (b"t", 2, 0)]
    throttle.set_replicas("t", [0, 1, 2])
    assert forgotten(ask(throttled, 1.1)) == [(b"t", index) for index in (0, 1, 2)]

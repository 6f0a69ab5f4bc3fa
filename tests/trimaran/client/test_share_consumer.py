"""A share consumer whose brokers give scripted responses: what it sends, and the records that it does not deliver."""

import itertools

import pytest

from tests.trimaran.client.scripted import Client
from trimaran.client.share_consumer import ShareConsumer
from trimaran.client.share_run import ShareRun
from trimaran.client.share_session import ACCEPT
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.wire.client.errors import ConnectionLost
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import share_acknowledge, share_fetch, share_group_heartbeat

E = ErrorCode
ID = bytes(range(16))
LEADERS = {("t", 0): LeaderOf(1, 0), ("t", 1): LeaderOf(2, 0)}


class Clock:
    """A clock that only the test moves, and a sleep that moves it."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


def beat(*partitions, code=0, epoch=1):
    assigned = share_group_heartbeat.TopicPartitions(topic_id=ID, partitions=list(partitions))
    return share_group_heartbeat.ShareGroupHeartbeatResponse(
        error_code=code,
        member_epoch=epoch,
        heartbeat_interval_ms=5000,
        assignment=share_group_heartbeat.Assignment(topic_partitions=[assigned]),
    )


def fetched(first=0, count=0, *, partition=0, code=0, ack_code=0, session_code=0, lock_ms=30_000):
    acquired = []
    if count:
        acquired = [
            share_fetch.AcquiredRecords(
                first_offset=first, last_offset=first + count - 1, delivery_count=1
            )
        ]
    told = share_fetch.PartitionData(
        partition_index=partition,
        error_code=code,
        acknowledge_error_code=ack_code,
        current_leader=share_fetch.LeaderIdAndEpoch(leader_id=1, leader_epoch=0),
        records=build_batch([NewRecord(None, b"v", 0)] * count, base_offset=first)
        if count
        else b"",
        acquired_records=acquired,
    )
    topic = share_fetch.ShareFetchableTopicResponse(topic_id=ID, partitions=[told])
    return share_fetch.ShareFetchResponse(
        error_code=session_code,
        acquisition_lock_timeout_ms=lock_ms,
        responses=[] if session_code else [topic],
        node_endpoints=[],
    )


def closed(code=0, partition_code=0):
    told = share_acknowledge.PartitionData(
        partition_index=0,
        error_code=partition_code,
        current_leader=share_acknowledge.LeaderIdAndEpoch(leader_id=1, leader_epoch=0),
    )
    topic = share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=ID, partitions=[told])
    return share_acknowledge.ShareAcknowledgeResponse(
        error_code=code, responses=[topic], node_endpoints=[]
    )


LEFT = beat(epoch=-1)


def consumer_of(*answers, leaders=LEADERS):
    client = Client(*answers, leaders=leaders)
    client.routing.topic_id = lambda topic: ID
    client.routing.locate = lambda destination: ("a", 1)
    clock = Clock()
    return ShareConsumer(client, "g", "t", clock=clock, sleep=clock.sleep), client, clock


def sent(client):
    """Returns the name of each request, its destination, and the epoch of its session or member."""
    names = {"ShareFetchRequest": "fetch", "ShareAcknowledgeRequest": "close"}
    return [
        (names.get(type(request).__name__, "beat"), str(to), getattr(request, epoch))
        for to, request in client.asked
        for epoch in ("share_session_epoch", "member_epoch")
        if hasattr(request, epoch)
    ]


def acknowledged(request):
    return [
        (batch.first_offset, batch.last_offset)
        for topic in request.topics
        for partition in topic.partitions
        for batch in partition.acknowledgement_batches
    ]


def test_acknowledgements_go_with_next_fetch_or_close():
    consumer, client, _ = consumer_of(beat(0), fetched(0, 2), fetched(2, 2), closed(), LEFT)
    with consumer:
        for shared in itertools.islice(consumer.records(), 3):
            consumer.acknowledge(shared, ACCEPT)
    assert sent(client) == [
        ("beat", "the coordinator of g", 0),
        ("fetch", "1", 0),
        ("fetch", "1", 1),
        ("close", "1", -1),
        ("beat", "the coordinator of g", -1),
    ]
    assert [acknowledged(request) for _, request in client.asked[1:4]] == [[], [(0, 1)], [(2, 2)]]
    assert consumer.lost == 0


def test_each_leader_has_a_session():
    consumer, client, _ = consumer_of(
        beat(0, 1), fetched(), fetched(5, 1, partition=1), closed(), closed(), LEFT
    )
    with consumer:
        (shared,) = itertools.islice(consumer.records(), 1)
    assert (shared.partition.partition, shared.record.offset) == (1, 5)
    assert [to for name, to, _ in sent(client) if name == "fetch"] == ["1", "2"]
    assert [request.max_wait_ms for _, request in client.asked[1:3]] == [250, 250]


def test_fetch_acquires_no_more_than_limit():
    consumer, client, _ = consumer_of(beat(0), fetched(0, 2), fetched(2, 1), closed(), LEFT)
    with consumer:
        assert [shared.record.offset for shared in consumer.records(3)] == [0, 1, 2]
    fetches = [request for _, request in client.asked[1:3]]
    assert [(one.max_records, one.share_acquire_mode) for one in fetches] == [(3, 1), (1, 1)]


@pytest.mark.parametrize(
    "answer",
    [
        fetched(session_code=E.SHARE_SESSION_NOT_FOUND),
        fetched(session_code=E.INVALID_SHARE_SESSION_EPOCH),
        ConnectionLost("gone"),
    ],
)
def test_lost_session_is_replaced_by_new_one(answer):
    consumer, client, _ = consumer_of(beat(0), fetched(0, 1), answer, fetched(0, 1), closed(), LEFT)
    with consumer:
        for shared in itertools.islice(consumer.records(), 2):
            consumer.acknowledge(shared, ACCEPT)
    assert [epoch for name, _, epoch in sent(client) if name == "fetch"] == [0, 1, 0]
    assert consumer.lost == 1


@pytest.mark.parametrize(
    "answers",
    [
        [fetched(2, 1, ack_code=E.INVALID_RECORD_STATE)],
        [
            fetched(code=E.NOT_LEADER_OR_FOLLOWER, ack_code=E.NOT_LEADER_OR_FOLLOWER),
            fetched(2, 1),
        ],
    ],
)
def test_late_acknowledgement_is_counted(answers):
    consumer, _, _ = consumer_of(beat(0), fetched(0, 2), *answers, closed(), LEFT)
    with consumer:
        for shared in itertools.islice(consumer.records(), 3):
            consumer.acknowledge(shared, ACCEPT)
    assert consumer.lost == 2


def test_late_acknowledgement_behind_the_limit_is_counted():
    last, late = fetched(2, 1), fetched(partition=1, ack_code=E.INVALID_RECORD_STATE)
    last.responses += late.responses
    leaders = {("t", index): LeaderOf(1, 0) for index in (0, 1)}
    first = fetched(0, 1)
    first.responses += fetched(0, 1, partition=1).responses
    consumer, _, _ = consumer_of(beat(0, 1), first, last, closed(), LEFT, leaders=leaders)
    with consumer:
        for shared in consumer.records(3):
            consumer.acknowledge(shared, ACCEPT)
    assert consumer.lost == 1


@pytest.mark.parametrize(
    "answer",
    [
        closed(code=E.SHARE_SESSION_NOT_FOUND),
        closed(partition_code=E.INVALID_RECORD_STATE),
        ConnectionLost("gone"),
    ],
)
def test_failed_close_is_counted(answer):
    consumer, client, _ = consumer_of(beat(0), fetched(0, 2), answer, LEFT)
    with consumer:
        for shared in itertools.islice(consumer.records(), 2):
            consumer.acknowledge(shared, ACCEPT)
    assert (consumer.lost, sent(client)[-1][2]) == (2, -1)


def test_records_whose_lock_has_ended_are_not_delivered():
    consumer, _, clock = consumer_of(
        beat(0), fetched(0, 3, lock_ms=1000), fetched(7, 1), closed(), LEFT
    )
    offsets = []
    with consumer:
        for shared in itertools.islice(consumer.records(), 3):
            offsets.append(shared.record.offset)
            clock.now += 0.5
    assert offsets == [0, 1, 7]


def test_heartbeats_are_sent_between_records():
    consumer, client, clock = consumer_of(beat(0), fetched(0, 3), beat(0, epoch=2), closed(), LEFT)
    with consumer:
        for _ in itertools.islice(consumer.records(), 3):
            clock.now += 2.5
    assert [name for name, _, _ in sent(client)] == ["beat", "fetch", "beat", "close", "beat"]


def test_moved_partition_is_looked_up_again():
    consumer, client, _ = consumer_of(
        beat(0), fetched(code=E.NOT_LEADER_OR_FOLLOWER), fetched(0, 1), closed(), LEFT
    )
    with consumer:
        assert len(list(consumer.records(1))) == 1
    assert client.refreshed == ["t"]


def test_partition_that_moves_back_is_named_again():
    moves = [answer for first in range(3) for answer in (fetched(first, 1), closed())]
    consumer, client, _ = consumer_of(beat(0), *moves, LEFT)
    with consumer:
        for leader, shared in zip((2, 1, 1), consumer.records(3), strict=True):
            consumer.acknowledge(shared, ACCEPT)
            client.routing.leaders["t", 0] = LeaderOf(leader, 0)
    each = [("fetch", 0), ("close", -1)]
    assert sent(client)[1:-1] == [(name, to, epoch) for to in "121" for name, epoch in each]
    assert [
        [partition.partition_index for topic in request.topics for partition in topic.partitions]
        for _, request in client.asked[1:-1]
    ] == [[0]] * 6
    assert (consumer.lost, len(client.asked)) == (0, 8)


@pytest.mark.parametrize(
    "answer",
    [
        fetched(code=E.TOPIC_AUTHORIZATION_FAILED),
        fetched(session_code=E.GROUP_AUTHORIZATION_FAILED),
    ],
)
def test_refused_request_ends_the_consumer(answer):
    consumer, _, _ = consumer_of(beat(0), answer, closed(), LEFT)
    with pytest.raises(KafkaError), consumer:
        list(consumer.records(1))


def test_quiet_time_counts_from_the_assignment():
    consumer, client, clock = consumer_of(
        beat(), *[beat(epoch=2)] * 2, beat(0, epoch=3), *[fetched()] * 3, closed(), LEFT
    )
    begun = clock.now

    def goes_on():
        clock.now += 1.0
        return True

    with consumer:
        assert list(consumer.records(quiet_seconds=2.5, goes_on=goes_on)) == []
    assert [name for name, _, _ in sent(client)].count("fetch") == 3
    assert clock.now - begun > 10.0


def test_end_is_noticed_before_each_record():
    consumer, _, _ = consumer_of(beat(0), fetched(0, 3), closed(), LEFT)
    answers = iter([True, True, False])
    with consumer:
        assert len(list(consumer.records(goes_on=lambda: next(answers)))) == 1


def offsets_of(consumer, run, clock=None, seconds=0.0):
    """Returns the offsets of all records of a run; `seconds` pass after each."""
    offsets = []
    with consumer:
        for shared in consumer.records(run=run):
            offsets.append((shared.partition.partition, shared.record.offset))
            if clock is not None:
                clock.now += seconds
    return offsets


def test_run_stops_at_the_ends_of_its_partitions():
    consumer, client, _ = consumer_of(
        beat(0, 1), fetched(0, 3), fetched(5, 4, partition=1), closed(), closed(), LEFT
    )
    assert offsets_of(consumer, ShareRun({0: 3, 1: 7})) == [(0, 0), (0, 1), (0, 2), (1, 5), (1, 6)]
    assert [acknowledged(request) for _, request in client.asked[3:5]] == [[], []]


def test_run_without_records_fetches_nothing():
    consumer, client, _ = consumer_of(beat(0), LEFT)
    assert (offsets_of(consumer, ShareRun({0: 0})), len(client.asked)) == ([], 2)


def test_kept_record_that_comes_again_is_skipped():
    consumer, _, _ = consumer_of(
        beat(0), fetched(0, 2), ConnectionLost("gone"), fetched(0, 3), closed(), LEFT
    )
    assert offsets_of(consumer, ShareRun({0: 3}, gives_back=True)) == [(0, 0), (0, 1), (0, 2)]


def test_kept_records_return_before_locks_end():
    consumer, client, clock = consumer_of(beat(0), fetched(0, 9, lock_ms=5000), closed(), LEFT)
    run = ShareRun(gives_back=True)
    assert offsets_of(consumer, run, clock, 1.0) == [(0, 0), (0, 1), (0, 2)]
    assert (sent(client)[-2][0], clock.now) == ("close", 103.0)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        (
            [beat(code=E.GROUP_AUTHORIZATION_FAILED)],
            "GROUP_AUTHORIZATION_FAILED: no READ for group g",
        ),
        (
            [beat(code=E.TOPIC_AUTHORIZATION_FAILED)],
            "TOPIC_AUTHORIZATION_FAILED: no DESCRIBE for topic t",
        ),
        (
            [beat(0), fetched(code=E.TOPIC_AUTHORIZATION_FAILED), closed(), LEFT],
            "TOPIC_AUTHORIZATION_FAILED: no READ for topic t",
        ),
        (
            [beat(0), fetched(session_code=E.GROUP_AUTHORIZATION_FAILED), LEFT],
            "GROUP_AUTHORIZATION_FAILED: no READ for group g",
        ),
    ],
)
def test_refusal_names_the_refused_resource(answers, told):
    consumer, _, _ = consumer_of(*answers)
    with pytest.raises(KafkaError) as caught, consumer:
        list(consumer.records())
    assert str(caught.value) == told

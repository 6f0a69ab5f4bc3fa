"""ListOffsets: refusals as a whole, end offsets by kind of reader, and look-ups that pause."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.broker.batches import append
from tests.broker.calls import Paused, call, finished, started, through_wire
from tests.checks import check_each
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.list_offsets import (
    Lookup,
    Requester,
    _below_end,
    _check_caught_up,
    _fail,
    _find,
    _in_version,
    _offset,
    _segment_offsets,
    _visible,
    list_offsets,
)
from trimaran.log.partitions.timestamps import TimestampOffset
from trimaran.log.steps import at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

E = ErrorCode
CONSUMER, COMMITTED, FOLLOWER = (
    Requester(True, False),
    Requester(True, True),
    Requester(False, False),
)
NOTHING = (-1, -1, -1)
BASE_MS = 1_700_000_000_000
T0 = TopicPartition("t", 0)


def wanted(index=0, timestamp=-1, **fields):
    return ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)


def request(*topics, replica_id=-1, isolation_level=0):
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=name, partitions=list(parts)) for name, *parts in topics],
    )


def refused(index, code):
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def test_refusal_names_each_partition():
    message = request(("t", wanted(3), wanted(1)), ("u", wanted(2)))
    code = E.REQUEST_TIMED_OUT
    assert _fail(message, code, "") == ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name="t", partitions=[refused(3, code), refused(1, code)]),
            ListOffsetsTopicResponse(name="u", partitions=[refused(2, code)]),
        ]
    )


class Log:
    def __init__(self, stable=4):
        self.log_start_offset, self.log_end_offset = 2, 9
        self.epochs = SimpleNamespace(epoch_for=lambda offset: offset + 100)
        self._stable = stable
        self.asked = []

    def last_stable_offset(self, watermark):
        return min(self._stable, watermark)

    def offsets_before(self, timestamp):
        self.asked.append(timestamp)
        yield 1
        return [9, 5, 2]

    def look_up_max_timestamp(self):
        yield 1
        return TimestampOffset(50, 3, 100)

    def look_up_timestamp(self, timestamp):
        yield 1
        return TimestampOffset(timestamp, 5, 100)


def leader(watermark=6, *, knows=True, **fields):
    return SimpleNamespace(
        log=Log(**fields),
        high_watermark=SimpleNamespace(offset=watermark),
        knows_committed=knows,
        ended=False,
        epoch=7,
    )


def test_log_end_depends_on_reader():
    assert [reader.end_of(leader()) for reader in (CONSUMER, COMMITTED, FOLLOWER)] == [6, 4, 9]


def test_offset_at_readers_end_is_not_found():
    for reader, end in ((CONSUMER, 6), (COMMITTED, 4), (FOLLOWER, 9)):
        assert _below_end(TimestampOffset(10, end - 1, 7), leader(), reader) == (10, end - 1, 7)
        for found in (TimestampOffset(10, end, 0), TimestampOffset(10, end + 1, 0), None):
            assert _below_end(found, leader(), reader) == NOTHING
    # Queries for the end, which a new leader does not know.
    for found in (TimestampOffset(10, 6, 0), None):
        with pytest.raises(KafkaError, match="OFFSET_NOT_AVAILABLE"):
            _below_end(found, leader(knows=False), CONSUMER)
    assert _below_end(TimestampOffset(10, 9, 0), leader(knows=False), FOLLOWER) == NOTHING
    assert _below_end(TimestampOffset(10, 5, 7), leader(knows=False), CONSUMER) == (10, 5, 7)


def test_unknown_watermark_is_hidden_from_consumers():
    for is_client, knows, refuses in (
        (True, True, False),
        (True, False, True),
        (False, True, False),
        (False, False, False),
    ):
        if refuses:
            with pytest.raises(KafkaError) as caught:
                _check_caught_up(leader(knows=knows), is_client)
            assert caught.value.code is E.OFFSET_NOT_AVAILABLE
        else:
            _check_caught_up(leader(knows=knows), is_client)


@pytest.mark.parametrize(
    ("timestamp", "since", "expected"),
    [
        (-1, 1, (-1, 6, 7)),
        (-2, 1, (-1, 2, 102)),
        (-3, 7, (50, 3, 100)),
        (-4, 8, (-1, 2, 102)),
        (-5, 9, NOTHING),
        (-6, 11, NOTHING),
        (-7, 0x7FFF, None),
        (0, 1, (0, 5, 100)),
        (10, 1, (10, 5, 100)),
    ],
)
def test_special_timestamps_depend_on_version(timestamp, since, expected):
    if expected is not None:
        assert started(_find(leader(), timestamp, since, CONSUMER)) == expected
    if since > 1:
        with pytest.raises(KafkaError) as caught:
            started(_find(leader(), timestamp, since - 1, CONSUMER))
        assert caught.value.code is E.UNSUPPORTED_VERSION
    if timestamp == -1:
        with pytest.raises(KafkaError, match="OFFSET_NOT_AVAILABLE"):
            started(_find(leader(knows=False), timestamp, since, CONSUMER))
        assert started(_find(leader(knows=False), timestamp, since, FOLLOWER)) == (-1, 9, 7)


def test_clients_before_version_5_know_another_code():
    for code, version, told in (
        (E.OFFSET_NOT_AVAILABLE, 5, E.OFFSET_NOT_AVAILABLE),
        (E.OFFSET_NOT_AVAILABLE, 4, E.LEADER_NOT_AVAILABLE),
        (E.OFFSET_NOT_AVAILABLE, 0, E.LEADER_NOT_AVAILABLE),
        (E.UNSUPPORTED_VERSION, 4, E.UNSUPPORTED_VERSION),
        (E.UNSUPPORTED_VERSION, 5, E.UNSUPPORTED_VERSION),
    ):
        assert _in_version(code, version) is told


def test_version_0_lists_limited_offsets_below_watermark():
    rows = {
        ((9, 5, 2), 3, CONSUMER): [6, 5, 2],
        ((9, 5, 2), 1, CONSUMER): [6],
        ((9, 5, 2), 0, CONSUMER): [],
        ((9, 5, 2), -1, CONSUMER): [],
        ((9, 7, 6, 5), 4, CONSUMER): [6, 5],
        ((6, 5), 2, CONSUMER): [6, 5],
        ((5, 9), 2, CONSUMER): [5, 9],
        ((), 3, CONSUMER): [],
        ((9, 5, 2), 2, FOLLOWER): [9, 5],
    }

    def check(row):
        (offsets, most, reader), expected = row
        asked = wanted(max_num_offsets=most)
        assert _visible(list(offsets), asked, leader(), reader) == expected

    check_each(rows.items(), check)


@pytest.mark.parametrize(
    ("timestamp", "asked", "offsets"),
    [
        (-2, [], [2]),
        (-1, [None], [9, 5, 2]),
        (999, [999], [9, 5, 2]),
        (1000, [None], [9, 5, 2]),
        (1001, [None], [9, 5, 2]),
        (0, [0], [9, 5, 2]),
    ],
)
def test_version_0_treats_future_time_as_end(timestamp, asked, offsets):
    here = leader()
    assert at_once(_segment_offsets(wanted(timestamp=timestamp), here, 1000)) == offsets
    assert here.log.asked == asked


@pytest.mark.parametrize("timestamp", range(-7, 3))
async def test_flushes_are_awaited_only_near_the_end(harness, timestamp):
    append(harness, b"not flushed", timestamp_ms=BASE_MS)
    for replica_id in (-1, 12):
        message = request(("t", wanted(0, timestamp)), replica_id=replica_id)
        asked = through_wire(message, 11)
        found = started(list_offsets(asked, harness.contexts.data, call(asked, 11)))
        is_near = timestamp in (2, 1, 0, -1, -3, -7)
        assert isinstance(found, Paused) is (is_near and replica_id < 0)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(
        topic("t", partition(leader_epoch=3), partition(leader_epoch=3)),
        topic("u", partition(leader_epoch=3), partition(leader_epoch=3)),
        brokers=(registration(11), registration(12)),
    )
    return harness


def test_partitions_named_twice_are_refused_alone(harness):
    message = request(
        ("t", wanted(0, -2), wanted(1, -2), wanted(0, -2)), ("u", wanted(0, -2), wanted(7, -2))
    )
    asked = through_wire(message, 11)
    found = started(list_offsets(asked, harness.contexts.data, call(asked, 11)))

    def start(index):
        return ListOffsetsPartitionResponse(
            partition_index=index, timestamp=-1, offset=0, leader_epoch=3
        )

    twice = refused(0, E.INVALID_REQUEST)
    assert found == ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name="t", partitions=[twice, start(1), twice]),
            ListOffsetsTopicResponse(
                name="u", partitions=[start(0), refused(7, E.UNKNOWN_TOPIC_OR_PARTITION)]
            ),
        ]
    )


def lookup_of(harness, version, *, reader=CONSUMER, late=()):
    return Lookup(harness.contexts.data, version, reader, Counter(), set(late))


@pytest.mark.parametrize(
    ("version", "code"), [(11, E.OFFSET_NOT_AVAILABLE), (4, E.LEADER_NOT_AVAILABLE)]
)
def test_failed_flush_fails_only_its_partition(harness, version, code):
    lookup = lookup_of(harness, version, late=[TopicPartition("t", 1)])
    found = {
        key: started(_offset(key, wanted(key.partition, -2), lookup)).error_code
        for key in [TopicPartition(name, index) for name in "tu" for index in (0, 1)]
    }
    assert found == {("t", 0): 0, ("t", 1): code, ("u", 0): 0, ("u", 1): 0}


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_consumers_and_followers_search_to_their_ends(harness, version):
    append(harness, b"a", timestamp_ms=BASE_MS + 10)
    append(harness, b"b", timestamp_ms=BASE_MS + 30)
    append(harness, b"c", timestamp_ms=BASE_MS + 20)
    harness.flush()
    append(harness, b"d", timestamp_ms=BASE_MS + 40)
    most = {"max_num_offsets": 9} if version == 0 else {}
    times = (-1, -2, 0) if version == 0 else (BASE_MS + 20, -3, BASE_MS + 35)

    async def search(reader):
        lookup = lookup_of(harness, version, reader=reader)
        return [await finished(_offset(T0, wanted(0, time, **most), lookup)) for time in times]

    found = [
        (
            partition.error_code,
            partition.timestamp,
            partition.offset,
            partition.leader_epoch,
        )
        for partition in await search(CONSUMER)
    ]
    if version == 0:
        assert found == [(0, -1, -1, -1)] * 3
        assert [partition.old_style_offsets for partition in await search(CONSUMER)] == [
            [3, 0],
            [0],
            [],
        ]
        return
    epoch = 3 if version >= 4 else -1
    # The largest timestamp is not committed yet; consumers of version 3 do not see it.
    assert found[0] == (0, BASE_MS + 30, 1, epoch)
    assert found[2] == (0, -1, -1, -1)
    assert [record.offset for record in await search(FOLLOWER)][::2] == [1, 3]


async def test_search_outliving_its_epoch_is_refused_alone(harness):
    append(harness, b"a", timestamp_ms=BASE_MS)
    harness.flush()
    found = _offset(T0, wanted(0, BASE_MS), lookup_of(harness, 11))
    next(found)
    moved = partition((11, 12), leader=12, leader_epoch=4, partition_epoch=1)
    harness.set_image(topic("t", moved, partition(leader_epoch=3)))
    assert (await finished(found)).error_code == E.NOT_LEADER_OR_FOLLOWER

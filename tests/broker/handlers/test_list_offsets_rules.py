"""ListOffsets: refusals as a whole, ends by reader, and look-ups that are finished later."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from tests.broker.batches import append
from tests.broker.calls import call, finished, through_wire
from tests.checks import check_each
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.list_offsets import (
    Lookup,
    Reader,
    Unfinished,
    _below_end,
    _check_caught_up,
    _fail,
    _find,
    _finish,
    _in_version,
    _keys,
    _keys_near_the_end,
    _offset,
    _segment_offsets,
    _visible,
    list_offsets,
)
from trimaran.log.steps import at_once
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from trimaran.wire.transport.requests.calls import DeferredResponse

E = ErrorCode
CONSUMER, COMMITTED, FOLLOWER = Reader(True, False), Reader(True, True), Reader(False, False)
NOTHING = (-1, -1, -1)
BASE_MS = 1_700_000_000_000


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


def test_a_refusal_names_each_partition():
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

    def max_timestamp_offset(self, headers):
        return 50, 3, headers

    def offset_for_timestamp(self, timestamp, headers):
        return timestamp, 5, headers


def leader(watermark=6, *, knows=True, **fields):
    return SimpleNamespace(
        log=Log(**fields),
        high_watermark=SimpleNamespace(offset=watermark),
        knows_committed=knows,
        epoch=7,
    )


def test_the_end_of_a_log_is_the_readers():
    assert [one.end_of(leader()) for one in (CONSUMER, COMMITTED, FOLLOWER)] == [6, 4, 9]


def test_offset_at_readers_end_is_not_found():
    for reader, end in ((CONSUMER, 6), (COMMITTED, 4), (FOLLOWER, 9)):
        assert _below_end((10, end - 1, 7), leader(), reader) == (10, end - 1, 7)
        for found in ((10, end, 0), (10, end + 1, 0), None):
            assert _below_end(found, leader(), reader) == NOTHING
    # At the end a new leader does not know.
    for found in ((10, 6, 0), None):
        with pytest.raises(KafkaError, match="OFFSET_NOT_AVAILABLE"):
            _below_end(found, leader(knows=False), CONSUMER)
    assert _below_end((10, 9, 0), leader(knows=False), FOLLOWER) == NOTHING
    assert _below_end((10, 5, 7), leader(knows=False), CONSUMER) == (10, 5, 7)


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
        assert _find(leader(), timestamp, since, CONSUMER) == expected
    if since > 1:
        with pytest.raises(KafkaError) as caught:
            _find(leader(), timestamp, since - 1, CONSUMER)
        assert caught.value.code is E.UNSUPPORTED_VERSION
    if timestamp == -1:
        with pytest.raises(KafkaError, match="OFFSET_NOT_AVAILABLE"):
            _find(leader(knows=False), timestamp, since, CONSUMER)
        assert _find(leader(knows=False), timestamp, since, FOLLOWER) == (-1, 9, 7)


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


def test_flushes_are_awaited_only_near_the_end():
    message = request(("t", *(wanted(9 - one, one) for one in range(2, -8, -1))), ("u", wanted(3)))
    near = [("t", 9 - one) for one in (2, 1, 0, -1, -3, -7)]
    assert _keys_near_the_end(message, CONSUMER) == [*near, ("u", 3)]
    assert _keys_near_the_end(message, FOLLOWER) == []
    keys, named = _keys(request(("t", wanted(1), wanted(0), wanted(1)), ("u", wanted(1))))
    assert keys == [("t", 1), ("t", 0), ("t", 1), ("u", 1)]
    assert named == Counter({("t", 1): 2, ("t", 0): 1, ("u", 1): 1})


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
    found = list_offsets(asked, harness.context, call(asked, 11))

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


def lookup_of(harness, version, *, reader=CONSUMER, late=(), unfinished=()):
    return Lookup(harness.context, version, reader, Counter(), set(late), list(unfinished), 1)


@pytest.mark.parametrize(
    ("version", "code"), [(11, E.OFFSET_NOT_AVAILABLE), (4, E.LEADER_NOT_AVAILABLE)]
)
def test_failed_flush_fails_only_its_partition(harness, version, code):
    lookup = lookup_of(harness, version, late=[("t", 1)])
    found = {
        (name, index): _offset(name, wanted(index, -2), lookup).error_code
        for name in "tu"
        for index in (0, 1)
    }
    assert found == {("t", 0): 0, ("t", 1): code, ("u", 0): 0, ("u", 1): 0}


@pytest.mark.parametrize("version", [0, 3, 4])
async def test_long_searches_are_finished_later(harness, version):
    append(harness, b"a", timestamp_ms=BASE_MS + 10)
    append(harness, b"b", timestamp_ms=BASE_MS + 30)
    append(harness, b"c", timestamp_ms=BASE_MS + 20)
    harness.flush()
    append(harness, b"d", timestamp_ms=BASE_MS + 40)
    here = harness.leader()
    most = {"max_num_offsets": 9} if version == 0 else {}
    times = (-1, -2, 0) if version == 0 else (BASE_MS + 20, -3, BASE_MS + 35)
    unfinished = [
        Unfinished(wanted(0, time, **most), here, ListOffsetsPartitionResponse(partition_index=0))
        for time in times
    ]
    await _finish(lookup_of(harness, version, unfinished=unfinished))
    told = [
        (one.answer.error_code, one.answer.timestamp, one.answer.offset, one.answer.leader_epoch)
        for one in unfinished
    ]
    if version == 0:
        assert told == [(0, -1, -1, -1)] * 3
        assert [one.answer.old_style_offsets for one in unfinished] == [[3, 0], [0], []]
        return
    epoch = 3 if version >= 4 else -1
    # The largest timestamp is not committed yet.
    assert told == [(0, BASE_MS + 30, 1, epoch), (0, -1, -1, -1), (0, -1, -1, -1)]
    follower = [
        Unfinished(wanted(0, time), here, ListOffsetsPartitionResponse(partition_index=0))
        for time in times
    ]
    await _finish(lookup_of(harness, version, reader=FOLLOWER, unfinished=follower))
    assert [one.answer.offset for one in follower] == [1, 3, 3]


async def test_search_outliving_its_epoch_is_refused_alone(harness):
    append(harness, b"a", timestamp_ms=BASE_MS)
    harness.flush()
    gone, here = harness.leader("u"), harness.leader("t")
    harness.set_image(
        topic("t", partition(leader_epoch=3), partition(leader_epoch=3)),
        topic("u", partition((11, 12), leader=12, leader_epoch=4, partition_epoch=1), partition()),
    )
    unfinished = [
        Unfinished(wanted(0, BASE_MS), one, ListOffsetsPartitionResponse(partition_index=0))
        for one in (gone, here)
    ]
    await _finish(lookup_of(harness, 11, unfinished=unfinished))
    assert [(one.answer.error_code, one.answer.offset) for one in unfinished] == [
        (E.NOT_LEADER_OR_FOLLOWER, -1),
        (E.NONE, 0),
    ]


async def test_heavy_request_is_answered_like_light_one(harness):
    append(harness, b"a", timestamp_ms=BASE_MS)
    harness.flush()
    message = request(("t", wanted(0, -1), wanted(1, -2)), ("u", wanted(0, BASE_MS), wanted(7)))
    answers = []
    for heavy in (False, True):
        asked = through_wire(message, 11)
        of = call(asked, 11)
        of.heavy = heavy
        response = list_offsets(asked, harness.context, of)
        assert isinstance(response, DeferredResponse) is heavy
        answers.append(await finished(response))
    assert answers[0] == answers[1]
    assert [one.offset for one in answers[0].topics[0].partitions] == [1, 0]


@pytest.mark.parametrize(("count", "is_later"), [(100, False), (101, True)])
async def test_hundred_partitions_are_looked_up_at_once(harness, count, is_later):
    message = request(("t", *(wanted(index, -2) for index in range(count))))
    asked = through_wire(message, 11)
    response = list_offsets(asked, harness.context, call(asked, 11))
    assert isinstance(response, DeferredResponse) is is_later
    codes = [one.error_code for one in (await finished(response)).topics[0].partitions]
    assert codes == [0, 0, *[E.UNKNOWN_TOPIC_OR_PARTITION] * (count - 2)]

"""Records that commands read: batches without aborted ones, each record once; and the figures of a load."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trimaran.client.scripted import Client, T
from trimaran.client import bench
from trimaran.client.bench import Latencies, Load, _shares
from trimaran.client.groups import total_lag
from trimaran.client.health import count_partitions
from trimaran.client.positions import Position
from trimaran.client.reader import PartitionReader, fetched_batches
from trimaran.client.topics import topic_rows
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)


def data(offset, count, producer=-1, *, transactional=False):
    records = [NewRecord(None, b"%d" % (offset + n), 1000 + offset + n) for n in range(count)]
    fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0}
    return build_batch(
        records,
        base_offset=offset,
        is_transactional=transactional,
        **(fields if producer >= 0 else {}),
    )


def marker(offset, producer, *, commit):
    made = bytearray(
        build_end_marker(
            EndMarker(commit, 0), producer_id=producer, producer_epoch=0, timestamp_ms=5
        )
    )
    made[:8] = offset.to_bytes(8, "big")
    return bytes(made)


STEPS = st.lists(st.tuples(st.sampled_from("dtca"), st.integers(0, 2)), min_size=1, max_size=20)


@given(STEPS)
def test_aborted_records_and_markers_are_skipped(steps):
    """The twin knows how the transaction of each record ended."""
    batches, aborted, begun, seen, offset = [], [], {}, [], 0
    for step, producer in steps:
        if step in "dt":
            transactional = step == "t"
            batches.append(data(offset, 2, producer, transactional=transactional))
            if transactional:
                begun.setdefault(producer, []).append(offset)
            else:
                seen += [offset, offset + 1]
            offset += 2
        else:
            commit = step == "c"
            batches.append(marker(offset, producer, commit=commit))
            offsets = begun.pop(producer, [])
            if commit:
                seen += [offset + n for offset in offsets for n in (0, 1)]
            elif offsets:
                aborted.append(SimpleNamespace(first_offset=offsets[0], producer_id=producer))
            offset += 1
    seen += [offset + n for offsets in begun.values() for offset in offsets for n in (0, 1)]
    found = SimpleNamespace(aborted_transactions=aborted[::-1], records=b"".join(batches))
    read = fetched_batches(found)
    assert [record.offset for batch in read for record in batch.records()] == sorted(seen)
    assert read[-1].next_offset == offset


def test_nothing_fetched_is_no_batch():
    for nothing in (None, b""):
        assert fetched_batches(SimpleNamespace(aborted_transactions=None, records=nothing)) == []


def fetched(*batches, code=0, index=0):
    part = PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=9,
        aborted_transactions=None,
        records=b"".join(batches),
    )
    topic = FetchableTopicResponse(topic="t", partitions=[part])
    return FetchResponse(responses=[topic])


def of_topic(*indexes):
    return [TopicPartition("t", index) for index in indexes]


def offset_answers(*offsets):
    """Returns a ListOffsets response for each."""
    return [
        ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="t",
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=0, offset=offset, timestamp=-1)
                    ],
                )
            ]
        )
        for offset in offsets
    ]


def test_each_partition_is_read_from_begin_to_end():
    """The batch that contains the start is returned whole; records written meanwhile are not read."""
    answers = [
        *offset_answers(6, 9),  # the ends of partitions 4 and 7
        fetched(data(2, 3), index=4),
        fetched(data(0, 4), data(4, 5), index=7),
        fetched(data(5, 1), data(6, 1), index=4),
    ]
    turns = []
    client = Client(*answers)
    reader = PartitionReader(client, of_topic(4, 7), is_committed=True)
    found = list(reader.records(Position(offset=3), True, lambda: turns.append(1)))
    assert [(where.partition, record.offset) for where, record in found] == [
        *((4, 3), (4, 4)),
        *((7, offset) for offset in range(3, 9)),
        *((4, 5), (4, 6)),
    ]
    assert len(turns) == 2
    fetches = [(to, request) for to, request in client.asked if hasattr(request, "max_wait_ms")]
    assert [to for to, _ in fetches] == [
        LeaderNode(TopicPartition("t", 4)),
        LeaderNode(TopicPartition("t", 7)),
        LeaderNode(TopicPartition("t", 4)),
    ]
    assert {request.isolation_level for _, request in client.asked} == {1}
    assert {fetch.max_wait_ms for _, fetch in fetches} == {0}
    offsets = [fetch.topics[0].partitions[0].fetch_offset for _, fetch in fetches]
    assert offsets == [3, 3, 5]


@pytest.mark.parametrize(("until", "end"), [(5, [3, 4]), (3, []), (100, [3, 4, 5])])
def test_partition_is_read_until_position_or_end(until, end):
    client = Client(*offset_answers(6), fetched(data(0, 6)))
    reader = PartitionReader(client, of_topic(0), is_committed=False)
    found = reader.records(Position(offset=3), False, until=Position(offset=until))
    assert [record.offset for _, record in found] == end


@pytest.mark.parametrize(
    ("offset", "batches", "expected"),
    [(2, [data(0, 3)], 1002), (3, [data(0, 3), data(5, 1)], 1005), (9, [data(0, 3)], None)],
)
def test_timestamp_at_offset_uses_next_record(offset, batches, expected):
    reader = PartitionReader(Client(fetched(*batches)), of_topic(0), is_committed=False)
    assert reader.timestamp_at(TopicPartition("t", 0), offset) == expected


@pytest.mark.parametrize(
    ("code", "bounds", "told"),
    [
        (ErrorCode.UNKNOWN_LEADER_EPOCH, (), ""),
        (ErrorCode.OFFSET_OUT_OF_RANGE, (2, 5), ", but there are offsets 2 to 4"),
        (ErrorCode.OFFSET_OUT_OF_RANGE, (5, 5), ", but it has no records"),
    ],
)
def test_refused_position_is_reported_with_its_partition(code, bounds, told):
    client = Client(fetched(code=code), *offset_answers(*bounds))
    reader = PartitionReader(client, of_topic(0), is_committed=False)
    with pytest.raises(KafkaError, match=f"t-0 at offset 7{told}$"):
        next(reader.records(Position(offset=7), exit_at_end=False))
    assert client.answers == []


def test_refused_fetch_asks_for_nothing_else():
    """The caller may know a better offset, and have less time."""
    client = Client(fetched(code=ErrorCode.OFFSET_OUT_OF_RANGE))
    with pytest.raises(KafkaError, match=r"t-0 at offset 7$"):
        PartitionReader(client, of_topic(0), is_committed=False).fetch(
            TopicPartition("t", 0), 7, wait=True
        )


def test_answer_without_topics_has_no_batches():
    reader = PartitionReader(Client(FetchResponse(responses=[])), of_topic(0), is_committed=False)
    assert reader.fetch(TopicPartition("t", 0), 7, wait=True) == []


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40), st.sampled_from([50, 95, 99.9]))
def test_percentile_matches_sorted_list_within_a_hundredth(seconds, percent):
    latencies = Latencies()
    for second in seconds:
        latencies.add(second)
    expected = sorted(seconds)[math.ceil(len(seconds) * percent / 100) - 1]
    assert latencies.percentile(percent) == pytest.approx(expected, rel=0.006)
    told_ = latencies.as_ms()
    assert told_["mean"] == pytest.approx(1000 * sum(seconds) / len(seconds), rel=0.006, abs=0.001)
    assert told_["max"] == pytest.approx(1000 * max(seconds), rel=0.006, abs=0.001)


def test_no_requests_have_zero_latencies():
    assert set(Latencies().as_ms().values()) == {0.0}
    assert list(Latencies().as_ms()) == ["mean", "p50", "p95", "p99", "p99.9", "max"]


def test_figures_cover_run_and_recent_interval(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(bench, "time", SimpleNamespace(monotonic=lambda: now[0]))
    load = Load()
    load.add(10, 3_000_000, 0.25)
    assert load.recent().percentile(100) == 0.25
    load.add(20, 1_000_000, 0.5)
    assert load.recent().counts.total() == 1
    assert load.recent().counts.total() == 0
    now[0] = 102.0
    figures = load.figures()
    assert (figures["records"], figures["bytes"], figures["requests"]) == (30, 4_000_000, 2)
    assert (figures["records_per_second"], figures["mb_per_second"]) == (15.0, 2.0)
    assert (figures["seconds"], figures["latency_ms"]["max"]) == (2.0, 500.0)
    now[0] = 102.00005
    assert load.figures()["mb_per_second"] == 2.0
    assert load.wait(0)
    now[0] = 200.0
    assert load.figures()["seconds"] == 2.0  # the run has ended


def test_first_client_error_ends_the_run():
    failed = ValueError("first")

    def failing(load):
        raise failed

    def waiting(load):
        load.pause_until(1e9)

    load = Load()
    load.begin([waiting, failing])
    assert load.wait(30)
    assert load.error is failed
    assert load.is_stopped()


@pytest.mark.parametrize(
    ("records", "expected"), [(0, []), (3, [3]), (4, [4]), (9, [4, 4, 1]), (8, [4, 4])]
)
def test_records_are_divided_into_batches_and_rest(records, expected):
    assert list(_shares(records, 4)) == expected


def test_partitions_are_counted_by_problem():
    def one(leader, replicas, isr):
        return SimpleNamespace(leader_id=leader, replica_nodes=replicas, isr_nodes=isr)

    partitions = [
        one(0, [0, 1], [0, 1]),
        one(1, [0, 1], [1]),
        one(-1, [0, 1], []),
        one(0, [], []),
    ]
    topics = [SimpleNamespace(partitions=partitions), SimpleNamespace(partitions=[])]
    assert tuple(count_partitions(topics)) == (2, 4, 1, 2, 1)


def test_topics_are_rows_in_the_order_of_names():
    other = T.replace(name="a", partitions=[], is_internal=True)
    assert topic_rows([T, other]) == [
        {"topic": "a", "partitions": 0, "replicas": 0, "internal": True},
        {"topic": "t", "partitions": 2, "replicas": 3, "internal": False},
    ]


def test_total_lag_sums_known_lags():
    assert total_lag([{"lag": 3}, {"lag": None}, {"lag": 4}, {"lag": 0}]) == 7

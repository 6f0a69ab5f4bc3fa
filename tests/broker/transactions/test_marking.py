"""Markers of several transactions for several partitions: each has its own outcome, and is in the right log."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.batches import batch
from tests.cluster.data_side import open_harness, partition, registration, topic
from tests.counted_work import Work
from trimaran.broker.partitions.isr import FetchClock
from trimaran.broker.transactions.marking import Marking, keys_of, the_same_for_all
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.log.producers.marker import EndMarker
from trimaran.node.runtime.pacing import run_handling
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

E = ErrorCode
NOW_MS = 1_700_000_000_123
OFFSETS = "__consumer_offsets"


def marker(producer_id, *topics, commit=True, epoch=0, coordinator_epoch=0, version=0):
    return WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        topics=[
            WritableTxnMarkerTopic(name=name, partition_indexes=list(indexes))
            for name, *indexes in topics
        ],
        coordinator_epoch=coordinator_epoch,
        transaction_version=version,
    )


def codes_of(answer):
    return [
        (
            marker.producer_id,
            [
                (each.name, [(p.partition_index, p.error_code) for p in each.partitions])
                for each in marker.topics
            ],
        )
        for marker in answer.markers
    ]


class Rig:
    """Broker 11 leads `t` 0 and 1 without followers, and `u` 0 with a follower that fetches when the test calls it."""

    def __init__(self, path) -> None:
        self.harness = open_harness(path)
        both = partition((11, 12))
        self.harness.set_image(
            topic("t", partition(), partition()),
            topic("u", both),
            topic("followed", partition((11, 12), leader=12)),
            brokers=(registration(11), registration(12)),
        )
        self.offsets: list[tuple] = []
        self.marking = Marking(self.harness.partitions, self.complete_offsets, lambda: NOW_MS)

    def complete_offsets(self, index, producer, end_marker, version):
        """Completes offsets as the group coordinator of a broker that leads no partition of the offsets."""
        self.offsets.append((index, producer, end_marker, version))
        raise KafkaError(E.NOT_LEADER_OR_FOLLOWER)

    def write(self, name, index, producer_id, epoch=0):
        data = batch(
            b"v",
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            is_transactional=True,
        )
        self.harness.leader(name, index).append(data, list(iter_batches(data)))

    def markers_in(self, name, index):
        log = self.harness.leader(name, index).log
        data = log.read_bytes(0, 1 << 20, upto_offset=log.log_end_offset)
        return [
            (view.producer_id, view.producer_epoch, record.key, record.value, record.timestamp_ms)
            for view in iter_batches(data)
            if view.is_control
            for record in decode_records(view)
        ]

    async def mark(self, *markers):
        request = WriteTxnMarkersRequest(markers=list(markers))
        return await run_handling(self.marking.writing(request))


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.harness.directory.close(broker_epoch=None)


async def marked(rig, nursery, *markers):
    """Returns the response once all written records are durable."""
    answers = []

    async def mark():
        answers.append(await rig.mark(*markers))

    nursery.start_soon(mark)
    await trio.testing.wait_all_tasks_blocked()
    rig.harness.flush()
    await trio.testing.wait_all_tasks_blocked()
    (answer,) = answers
    return answer


async def test_marker_outcomes_follow_order_of_request(rig, nursery):
    for producer_id, index in ((1, 0), (1, 1), (2, 1)):
        rig.write("t", index, producer_id)
    answer = await marked(
        rig,
        nursery,
        marker(1, ("t", 1, 0, 7), ("followed", 0), coordinator_epoch=4),
        marker(2, ("nowhere", 3), ("t", 1), commit=False, coordinator_epoch=5),
    )
    assert codes_of(answer) == [
        (
            1,
            [
                ("t", [(1, E.NONE), (0, E.NONE), (7, E.UNKNOWN_TOPIC_OR_PARTITION)]),
                ("followed", [(0, E.NOT_LEADER_OR_FOLLOWER)]),
            ],
        ),
        (2, [("nowhere", [(3, E.UNKNOWN_TOPIC_OR_PARTITION)]), ("t", [(1, E.NONE)])]),
    ]
    commit, abort = b"\0\0\0\1", b"\0\0\0\0"
    first = (1, 0, commit, b"\0\0\0\0\0\4", NOW_MS)
    assert rig.markers_in("t", 0) == [first]
    assert rig.markers_in("t", 1) == [first, (2, 0, abort, b"\0\0\0\0\0\5", NOW_MS)]


async def test_marker_epoch_is_current_or_next(rig, nursery):
    rig.write("t", 0, 7, epoch=3)
    for epoch, version, code in (
        (2, 0, E.INVALID_PRODUCER_EPOCH),
        (3, 2, E.INVALID_PRODUCER_EPOCH),
        (4, 2, E.NONE),
    ):
        answer = await marked(rig, nursery, marker(7, ("t", 0), epoch=epoch, version=version))
        assert codes_of(answer) == [(7, [("t", [(0, code)])])]


async def test_markers_of_offsets_go_to_the_group_coordinator(rig, nursery):
    rig.harness.set_image(topic(OFFSETS, partition(), partition()), topic("t", partition()))
    rig.write("t", 0, 7)
    topics = ((OFFSETS, 1, 0), ("t", 0))
    answer = await marked(
        rig, nursery, marker(7, *topics, commit=False, epoch=8, coordinator_epoch=9, version=2)
    )
    assert rig.offsets == [(index, (7, 8), EndMarker(False, 9), 2) for index in (1, 0)]
    refused = E.NOT_LEADER_OR_FOLLOWER
    assert codes_of(answer) == [(7, [(OFFSETS, [(1, refused), (0, refused)]), ("t", [(0, 0)])])]


async def test_followers_have_thirty_seconds_to_fetch_a_marker(rig, mock_clock, nursery):
    """A follower that has the record before the marker still lacks the marker."""
    rig.write("u", 0, 7)
    answers = []

    async def mark():
        answers.append(await rig.mark(marker(7, ("u", 0), ("t", 5))))

    nursery.start_soon(mark)
    await trio.testing.wait_all_tasks_blocked()
    rig.harness.flush()
    rig.harness.leader("u").record_fetch(12, 1, 0, 112, FetchClock())
    assert rig.harness.leader("u").high_watermark.offset == 1
    mock_clock.jump(29.999)
    await trio.testing.wait_all_tasks_blocked()
    assert answers == []
    mock_clock.jump(0.001)
    await trio.testing.wait_all_tasks_blocked()
    (answer,) = answers
    assert codes_of(answer) == [
        (7, [("u", [(0, E.REQUEST_TIMED_OUT)]), ("t", [(5, E.UNKNOWN_TOPIC_OR_PARTITION)])])
    ]


async def test_many_markers_are_written_some_in_a_turn(rig, nursery, monkeypatch):
    monkeypatch.setattr("trimaran.node.runtime.pacing.HOLD_SECONDS_MAX", 0)
    rig.write("t", 0, 1)
    written = Work(monkeypatch, Marking, "_append_to")
    await marked(rig, nursery, *[marker(1, ("t", 0), epoch=epoch) for epoch in range(20)])
    assert (written.calls, written.in_longest_step) == (20, 1)


def test_common_code_names_every_partition():
    request = WriteTxnMarkersRequest(
        markers=[marker(1, ("t", 1, 0), ("u", 4)), marker(2, ("t", 2))]
    )
    assert list(keys_of(request)) == [("t", 1), ("t", 0), ("u", 4), ("t", 2)]
    code = E.CLUSTER_AUTHORIZATION_FAILED
    assert codes_of(the_same_for_all(request, code)) == [
        (1, [("t", [(1, code), (0, code)]), ("u", [(4, code)])]),
        (2, [("t", [(2, code)])]),
    ]

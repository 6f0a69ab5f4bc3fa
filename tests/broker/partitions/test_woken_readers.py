"""Readers and listeners are notified of a change after the state has changed, because they examine the state
immediately.
"""

from __future__ import annotations

import pytest

from tests.broker.batches import append
from tests.cluster.data_side import partition, topic
from trimaran.broker.partitions.watchers import Interest
from trimaran.wire.identity import TopicPartition

KEY = TopicPartition("t", 0)


class Reader:
    """Notes the ends and the start of the log that it sees when it is woken."""

    def __init__(self, held) -> None:
        self.held = held
        self.seen: list[tuple[int, int, int]] = []

    def data_changed(self, _interest):
        log = self.held.log
        self.seen.append((log.log_start_offset, self.held.high_watermark, log.log_end_offset))

    watermark_changed = data_changed


def lead(harness, **fields):
    harness.set_image(topic("t", partition(**fields)))
    harness.leader()
    return harness.partitions.find(KEY)


def watch(held, *, upto_end):
    reader = Reader(held)
    held.watchers.add(Interest(reader), upto_end=upto_end)
    return reader


def test_woken_reader_sees_what_has_changed(harness):
    held = lead(harness)
    follower, consumer = watch(held, upto_end=True), watch(held, upto_end=False)
    append(harness, b"a", b"b")
    harness.flush()
    harness.leader().delete_records_before(1)
    assert follower.seen == [(0, 0, 2), (0, 2, 2), (1, 2, 2)]
    assert consumer.seen == [(0, 2, 2), (1, 2, 2)]


class Listener:
    """Notes whether the epoch was alive when its begin and its end were reported."""

    def __init__(self, partitions) -> None:
        self.partitions = partitions
        self.leader = None
        self.heard: list[tuple[str, bool]] = []

    def began(self, partition_index, leader):
        held = self.partitions.find(KEY)
        self.leader = leader
        self.heard.append(("began", held.leader_or_none is leader and not leader.ended))

    def ended(self, partition_index, leader_epoch):
        self.heard.append(("ended", not self.leader.ended))


@pytest.mark.parametrize(
    "end",
    [
        lambda harness: harness.set_image(),
        lambda harness: lead(harness, leader_epoch=1, partition_epoch=1),
        lambda harness: harness.partitions.reopen([harness.partitions.find(KEY)]),
    ],
    ids=["removed", "next epoch", "reopened"],
)
def test_listener_is_notified_after_the_epoch_ends(harness, end):
    """The listener closes what belongs to the epoch, and must find the epoch ended."""
    listener = Listener(harness.partitions)
    harness.partitions.listen("t", listener)
    lead(harness)
    end(harness)
    assert listener.heard[:2] == [("began", True), ("ended", False)]
    assert listener.heard[2:] in ([], [("began", True)])

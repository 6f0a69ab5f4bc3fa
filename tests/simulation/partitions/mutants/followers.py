"""Bugs of followers: truncations, appends, requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest import mock

import trio

from tests.simulation.mutants.mutant import both
from tests.simulation.partitions.mutants.leaders import SAFETY
from trimaran.broker.partitions.follower import PartitionFollower
from trimaran.broker.partitions.registry import Partitions
from trimaran.broker.partitions.replica import Replica
from trimaran.broker.replication.fetch_client import FetchClient
from trimaran.broker.replication.fetcher import Fetcher
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import KafkaError

Patch = AbstractContextManager[Any]


def _cuts_to_the_watermark() -> Patch:
    """KAFKA-1211, KIP-101: a new follower truncates to the watermark that it knows."""
    real = Partitions._begin

    def begin(self: Partitions, partition: Any) -> None:
        real(self, partition)
        if partition.follows and not partition.must_check and not partition.is_new:
            # A disk failure meanwhile is not part of this bug.
            with suppress(KafkaError):
                partition.open_follower().truncate_to(partition.saved_watermark)

    return mock.patch.object(Partitions, "_begin", begin)


def _one_answer_ends_the_truncation() -> Patch:
    """KAFKA-6361, KIP-279: truncates to the leader's end offset without comparing epochs."""

    def truncate(self: PartitionFollower, _epoch: int, end: int) -> None:
        self.truncate_to(min(end, self.log.log_end_offset))

    return mock.patch.object(PartitionFollower, "truncate_diverging", truncate)


def _cuts_where_its_own_epoch_ends() -> Patch:
    def truncate(self: PartitionFollower, epoch: int, _end: int) -> None:
        self.truncate_to(min(self.log.end_offset_for_epoch(epoch)[1], self.log.log_end_offset))

    return mock.patch.object(PartitionFollower, "truncate_diverging", truncate)


def _keeps_what_diverges() -> Patch:
    return mock.patch.object(PartitionFollower, "truncate_diverging", return_value=None)


def _keeps_the_watermark_when_it_cuts() -> Patch:
    """KAFKA-9491: known committed records are never truncated, and the watermark is not limited to the log's end."""

    def truncate(self: PartitionFollower, offset: int) -> None:
        self.log.truncate_to(offset)
        self._flush_truncated()

    def take(self: PartitionFollower, high: int, _start: int) -> None:
        if not self.is_new:
            self.replica.saved_watermark = max(self.replica.saved_watermark, high)

    return both(
        mock.patch.object(PartitionFollower, "truncate_to", truncate),
        mock.patch.object(PartitionFollower, "take_watermark", take),
        mock.patch.object(Replica, "watermark_in_log", lambda self: self.saved_watermark),
    )


def _answers_of_ended_epochs_are_accepted() -> Patch:
    """KAFKA-13207, KAFKA-18723, Redpanda 17731."""
    return mock.patch.object(
        FetchClient, "find_asked", lambda self, key, _request: self._followed.get(key)
    )


def _asks_before_it_is_flushed() -> Patch:
    return mock.patch.object(PartitionFollower, "ready", property(lambda _: True))


def _passes_over_the_batch_that_straddles() -> Patch:
    """A batch that begins below the position is skipped."""
    real = PartitionFollower.append

    def append(self: PartitionFollower, records: memoryview) -> bool:
        end = self.log.log_end_offset
        from trimaran.log.batches.batch import header_at

        while (batch := header_at(records, 0)) is not None and batch.base_offset < end:
            records = records[batch.size :]
        return real(self, records)

    return mock.patch.object(PartitionFollower, "append", append)


def _any_watermark_is_accepted() -> Patch:
    """A follower with a longer log accepts the leader's watermark before the batches are compared."""

    def take(self: PartitionFollower, _high: int, _start: int) -> None:
        if not self.is_new:
            self.replica.saved_watermark = self.log.log_end_offset

    return mock.patch.object(PartitionFollower, "take_watermark", take)


def _watermark_of_a_namesake_is_kept() -> Patch:
    """The checkpoint's watermark is that of a deleted topic of the same name."""
    real = Replica.log.fget
    assert real is not None

    def log(self: Replica) -> PartitionLog:
        saved = self.saved_watermark
        found: PartitionLog = real(self)
        self.saved_watermark = saved
        return found

    return mock.patch.object(Replica, "log", property(log))


def _fetcher_polls_without_pause() -> Patch:
    """A due partition that cannot be fetched is examined repeatedly, without a pause."""
    return mock.patch.object(Fetcher, "_next_work_at", property(lambda self: self._client.next_due))


def _fetcher_ends_during_log_check() -> Patch:
    """The fetcher of the only partition ends while its log is checked."""
    return mock.patch.object(Fetcher, "__len__", lambda self: len(self._new) + len(self._client))


def _deleted_records_block_the_follower() -> Patch:
    def drop(_self: PartitionFollower, _log_start: int) -> Iterator[int]:
        yield from ()

    return mock.patch.object(PartitionFollower, "drop_deleted", drop)


def _delayed_partitions_are_forgotten() -> Patch:
    """A partition that the leader refused once is not requested again."""

    def delay(self: FetchClient, followed: Any, _now: float) -> None:
        self._delayed[followed.key] = float("inf")
        self._forget_later(followed.key)

    return mock.patch.object(FetchClient, "delay", delay)


def _fetch_positions_are_sent_once() -> Patch:
    """The fetch session is not updated with the appended records."""
    return mock.patch.object(FetchClient, "mark_changed", return_value=None)


def _out_of_range_follower_discards_everything() -> Patch:
    """A follower out of the leader's range discards everything, even if it only has to truncate."""

    async def find(self: Fetcher, connection: Any, followed: Any) -> None:
        follower = followed.follower
        try:
            start = await self._leader_offset(connection, follower, -4)
            if not follower.ended:
                follower.start_at(start)
        except KafkaError:
            self._client.delay(followed, trio.current_time())
        self._after_change(followed)

    return mock.patch.object(Fetcher, "_find_position", find)


def _start_at_keeps_the_watermark() -> Patch:
    def start(self: PartitionFollower, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self._flush_truncated()

    return mock.patch.object(PartitionFollower, "start_at", start)


FOLLOWERS = (
    ("cuts to the watermark", _cuts_to_the_watermark, (*SAFETY, "P6")),
    ("one answer ends the truncation", _one_answer_ends_the_truncation, (*SAFETY, "P10", "L1")),
    ("cuts where its own epoch ends", _cuts_where_its_own_epoch_ends, (*SAFETY, "P10", "L1")),
    ("keeps what diverges", _keeps_what_diverges, (*SAFETY, "P10", "L1")),
    ("keeps the watermark when it cuts", _keeps_the_watermark_when_it_cuts, (*SAFETY, "P6", "L1")),
    (
        "answers of ended epochs are accepted",
        _answers_of_ended_epochs_are_accepted,
        (*SAFETY, "P10", "L1"),
    ),
    ("asks before it is flushed", _asks_before_it_is_flushed, (*SAFETY, "P3")),
    (
        "passes over the batch that straddles",
        _passes_over_the_batch_that_straddles,
        ("P1", "P10", "L1"),
    ),
    ("any watermark is accepted", _any_watermark_is_accepted, ("P9",)),
    ("watermark of a namesake is kept", _watermark_of_a_namesake_is_kept, ("P9", "P7", "P8")),
    ("fetcher polls without pause", _fetcher_polls_without_pause, ("L1",)),
    ("fetcher ends during log check", _fetcher_ends_during_log_check, ("L1",)),
    ("deleted records block the follower", _deleted_records_block_the_follower, ("L1",)),
    ("delayed partitions are forgotten", _delayed_partitions_are_forgotten, ("L1",)),
    ("fetch positions are sent once", _fetch_positions_are_sent_once, ("L1",)),
    (
        "out-of-range follower discards everything",
        _out_of_range_follower_discards_everything,
        (*SAFETY, "P6", "L1"),
    ),
    ("start keeps the watermark", _start_at_keeps_the_watermark, SAFETY),
)

"""A client of a running quorum, ours or Apache Kafka's, that reads its log and snapshots as an observer without
an id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.quorum.observing.description import describe_quorum, metadata_partition_of
from trimaran.quorum.raft_log.partition import TOPIC, TOPIC_ID
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.calls import RETRIED
from trimaran.wire.client.destinations import ControllerNode
from trimaran.wire.errors import ErrorCode, KafkaError, RemoteProtocolError
from trimaran.wire.identity import LeaderEpoch, Offset, Position
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, SnapshotId
from trimaran.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
)
from trimaran.wire.schema import Message

FETCH_BYTES_MAX = 1 << 20
FETCH_WAIT_MS = 500
FETCH_VERSION = 17
# Errors of a request with an old epoch: the leader must be looked up again.
EPOCH_IS_OVER = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
NEWEST = LeaderEpoch((1 << 31) - 1)  # the current epoch of the leader
# The mirror's bound: a snapshot of a million partitions is about 100 MB.
SNAPSHOT_BYTES_MAX = 1 << 30


class LiveQuorum:
    """The leader of a running quorum, read as an observer without an id."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._leader_epoch: LeaderEpoch | None = None

    def begins_with(self) -> SnapshotId | None:
        """Returns the leader's snapshot if its log no longer starts at 0, or if reading the snapshot is faster."""
        snapshot: SnapshotId = self._fetch(Offset(0), NEWEST).snapshot_id
        return None if snapshot.end_offset < 0 else snapshot

    def high_watermark(self) -> Offset:
        """Returns the present end of the committed records."""
        return Offset(self._fetch(Offset(0), NEWEST).high_watermark)

    def batches(self, start: Offset, *, follow: bool = False) -> Iterator[BatchView]:
        """Yields committed batches up to the high watermark, or without end if `follow` is set."""
        offset, epoch = start, NEWEST
        # A caller that reads only existing records does not wait for more; they exist already or arrive soon.
        wait_ms = FETCH_WAIT_MS if follow else 0
        while True:
            partition = self._fetch(offset, epoch, wait_ms)
            wait_ms = FETCH_WAIT_MS
            watermark = partition.high_watermark
            if partition.snapshot_id.end_offset >= 0:
                if partition.snapshot_id.end_offset <= offset:
                    raise RemoteProtocolError(f"a snapshot in the place of offset {offset}")
                offset, epoch = partition.snapshot_id.end_offset, partition.snapshot_id.epoch
                continue
            for batch in iter_batches(partition.records or b"", allow_partial_tail=True):
                if batch.next_offset <= offset:
                    raise RemoteProtocolError(f"{batch!r} in an answer from offset {offset} on")
                if batch.next_offset > watermark:
                    break
                if batch.next_offset > start:
                    yield batch
                offset, epoch = batch.next_offset, batch.leader_epoch
            if offset >= watermark and not follow:
                return
            if partition.diverging_epoch.epoch >= 0:
                # The leader changed in between. All records read so far are committed, so the next epoch is the one
                # that this leader names.
                epoch = partition.diverging_epoch.epoch

    def _fetch(self, offset: Offset, epoch: LeaderEpoch, wait_ms: int = FETCH_WAIT_MS) -> Any:
        """Fetches from `offset`. `epoch` is the epoch of the record before it; NEWEST is valid if the log continues
        without a snapshot.
        """

        def ask(leader_epoch: LeaderEpoch) -> FetchRequest:
            wanted = FetchPartition(
                partition=0,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=min(epoch, leader_epoch),
                partition_max_bytes=FETCH_BYTES_MAX,
            )
            return FetchRequest(
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=FETCH_BYTES_MAX,
                topics=[FetchTopic(topic_id=TOPIC_ID, partitions=[wanted])],
            )

        response = self._ask_leader(ask, lambda response: response.responses, version=FETCH_VERSION)
        return metadata_partition_of(response.responses)

    def snapshot(self, end_offset: Offset, epoch: LeaderEpoch) -> bytes:
        """Returns the whole snapshot with that id. Raises KafkaError if the leader no longer has it."""
        data = bytearray()

        def ask(leader_epoch: LeaderEpoch) -> FetchSnapshotRequest:
            wanted = FetchSnapshotRequestPartitionSnapshot(
                partition=0,
                current_leader_epoch=leader_epoch,
                snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=end_offset, epoch=epoch),
                position=Position(len(data)),
            )
            return FetchSnapshotRequest(
                max_bytes=FETCH_BYTES_MAX,
                topics=[FetchSnapshotRequestTopicSnapshot(name=TOPIC, partitions=[wanted])],
            )

        while True:
            response = self._ask_leader(ask, lambda response: response.topics)
            piece = metadata_partition_of(response.topics)
            if piece.size > SNAPSHOT_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.RECORD_LIST_TOO_LARGE, f"a snapshot of {piece.size} bytes"
                )
            data += piece.unaligned_records or b""
            if len(data) >= piece.size:
                return bytes(data)
            if not piece.unaligned_records:
                raise KafkaError(ErrorCode.POSITION_OUT_OF_RANGE, "the snapshot came to no end")

    def _ask_leader(
        self,
        ask: Callable[[LeaderEpoch], Message],
        topics_of: Callable[[Any], Any],
        *,
        version: int | None = None,
    ) -> Any:
        """Returns the leader's response; looks up the leader first, and again if its epoch has ended.

        Raises:
            KafkaError: any other error in the response.
        """
        while True:
            was_known = self._leader_epoch is not None
            if self._leader_epoch is None:
                self._leader_epoch = LeaderEpoch(describe_quorum(self._client).leader_epoch)
            request = ask(self._leader_epoch)
            # A leader that was just looked up may not have noticed its epoch yet, but a newer epoch is a real change.
            retried = RETRIED - (EPOCH_IS_OVER if was_known else {ErrorCode.FENCED_LEADER_EPOCH})
            response = self._client.call(
                ControllerNode(), request, version=version, retried=retried
            )
            code = response.error_code or metadata_partition_of(topics_of(response)).error_code
            if code not in EPOCH_IS_OVER:
                if code:
                    raise KafkaError(ErrorCode.of(code), "while reading the metadata log")
                return response
            self._leader_epoch = None

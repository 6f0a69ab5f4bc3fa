"""The origin for running controllers, ours and Apache Kafka's: reads the metadata log as an observer without an id.

Records below the leader's high watermark are committed. Source: KIP-595, KIP-630;
`trimaran.quorum.observing.live_quorum`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.quorum.observing.live_quorum import LiveQuorum
from trimaran.spark.origins.damage import lose
from trimaran.spark.origins.directories.discovery import METADATA_TOPIC
from trimaran.spark.origins.origin import NO_POSITION, Located, Reading
from trimaran.spark.origins.running_cluster.connection import ClusterSettings
from trimaran.wire.identity import LeaderEpoch, NodeId, Offset, TopicPartition


@dataclass(frozen=True, slots=True)
class LiveSnapshot:
    """The snapshot at the beginning of a leader's log: the state up to `end_offset`."""

    cluster: ClusterSettings
    end_offset: Offset
    epoch: LeaderEpoch
    size: int

    @property
    def path(self) -> str:
        return f"{self.cluster.bootstrap}/{self.end_offset:020d}-{self.epoch:010d}.checkpoint"

    def batches(self) -> Iterator[tuple[int, BatchView]]:
        """Yields (position, batch) after fetching the whole snapshot. Raises DataUnreadable."""
        position = 0
        for batch in iter_batches(memoryview(self.read())):
            yield position, batch
            position += batch.size

    def read(self) -> bytes:
        """Returns the whole snapshot. Raises DataUnreadable, for example if the leader no longer has it."""
        with self.cluster.client() as client:
            return LiveQuorum(client).snapshot(self.end_offset, self.epoch)


@dataclass(frozen=True, slots=True)
class ControllerRange:
    """Offsets [start, end) of the metadata log; `node_id` led the quorum when the range was planned."""

    cluster: ClusterSettings
    node_id: NodeId
    start_offset: Offset
    end_offset: Offset

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(METADATA_TOPIC, 0)

    @property
    def log_dir(self) -> str | None:
        return None

    @property
    def log_start(self) -> Offset:
        return Offset(0)

    @property
    def name(self) -> str:
        return f"{self.cluster.bootstrap}/{METADATA_TOPIC}-0"

    def batches(self, reading: Reading) -> Iterator[Located]:
        """Yields the batches. This log is never compacted: missing records were trimmed after a new snapshot since the
        range was planned.
        """
        if self.start_offset >= self.end_offset:
            return
        expected = self.start_offset
        with self.cluster.client(is_polling=True) as client:
            for found in LiveQuorum(client).batches(self.start_offset):
                if found.base_offset > expected:
                    lose(
                        f"{self.name}: offsets {expected} to {found.base_offset - 1} were trimmed since they were "
                        "planned; run it again",
                        fail=reading.fail_on_data_loss,
                    )
                if found.base_offset >= self.end_offset:
                    return
                expected = found.next_offset
                if reading.include_control or not found.is_control:
                    yield Located(NO_POSITION, _own(found))
                if expected >= self.end_offset:
                    return


def _own(batch: BatchView) -> BatchView:
    """Copies the bytes: a response is valid until the next one."""
    batch.buffer = bytes(batch.buffer)
    return batch


@dataclass(frozen=True, slots=True)
class LiveLog:
    """The bounds of a leader's log; `cluster_id` is empty if the leader does not report it."""

    snapshot: LiveSnapshot | None
    high_watermark: Offset
    leader_id: NodeId
    cluster_id: str

    @property
    def start_offset(self) -> Offset:
        return self.snapshot.end_offset if self.snapshot else Offset(0)


def survey_quorum(settings: ClusterSettings) -> LiveLog:
    """Queries the leader for the bounds of its log. Raises DataUnreadable."""
    with settings.client() as client:
        quorum = LiveQuorum(client)
        first, mark = quorum.begins_with(), quorum.high_watermark()
        leader = NodeId(client.routing.controller_id)
        snapshot = None
        if first is not None:
            end_offset, epoch = Offset(first.end_offset), LeaderEpoch(first.epoch)
            size = len(quorum.snapshot(end_offset, epoch))
            snapshot = LiveSnapshot(settings, end_offset, epoch, size)
        return LiveLog(snapshot, mark, leader, client.routing.cluster_id or "")

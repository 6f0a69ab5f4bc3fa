"""A replica with its current leader or follower epoch.

Source: `Partition` of Kafka. The epoch is created on first use. A replica that moves to another directory is first
copied there (`trimaran.broker.background.directory_moves`); the copy then replaces it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import NamedTuple

from trimaran.broker.partitions.follower import PartitionFollower, open_follower_epoch
from trimaran.broker.partitions.isr_change import SavedLeaderState
from trimaran.broker.partitions.leader import PartitionLeader, open_leader_epoch
from trimaran.broker.partitions.replica import Replica, why_incomplete
from trimaran.broker.partitions.services import Services
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.quorum.metadata.image import PartitionImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId, Offset, TopicPartition


class FollowerReads(NamedTuple):
    """A follower from which consumers read below the high watermark that its leader has sent (KIP-392). It has the
    attributes of a `PartitionLeader` that serve consumers, and is valid for one poll.
    """

    log: PartitionLog
    committed_end: Offset

    @property
    def knows_committed(self) -> bool:
        """Always True: a follower only answers for its own log; a consumer beyond its end waits, or fetches from the
        leader.
        """
        return True


class Partition(Replica):
    """A replica of a partition. At most one of its leader and follower epochs is alive: that of the epoch in `state`.

    `leader_or_none` is the leader epoch, if it has been opened. `_epoch` is the open block of the epoch that is alive:
    closing the block ends the epoch in every case.
    """

    __slots__ = ("_epoch", "_follower", "_saved_leader", "leader_or_none")

    def __init__(
        self,
        services: Services,
        topic_partition: TopicPartition,
        topic_id: bytes,
        state: PartitionImage,
        saved_watermark: Offset = Offset(0),
        *,
        is_new: bool = False,
    ) -> None:
        super().__init__(services, topic_partition, topic_id, state, saved_watermark, is_new=is_new)
        self._epoch: ExitStack | None = None
        self.leader_or_none: PartitionLeader | None = None
        self._follower: PartitionFollower | None = None
        # The state of this leader epoch when its log was last released.
        self._saved_leader: SavedLeaderState | None = None

    def is_untouched_for(self, replica_id: BrokerId) -> bool:
        """Whether this broker leads, nothing was ever written, and the follower `replica_id` is in the ISR: its fetches
        then need no log.
        """
        return self.leads and not self.deleted and replica_id in self.state.isr and self.is_new

    @property
    def high_watermark(self) -> Offset:
        """The last known high watermark; does not open the log."""
        if self.leader_or_none is not None:
            return self.leader_or_none.high_watermark.offset
        return self.saved_watermark

    def open_leader(self) -> PartitionLeader:
        """Returns the leader epoch, which begins on first use (and opens the log).

        Raises:
            KafkaError: NOT_LEADER_OR_FOLLOWER; the codes of `log`.
        """
        if self.leader_or_none is None:
            if not self.leads or self.deleted:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._check_complete()
            block = ExitStack()
            self.leader_or_none = block.enter_context(
                open_leader_epoch(self, self.state, self._saved_leader)
            )
            self._epoch = block
            self.watchers.notify_all()
        return self.leader_or_none

    def _check_complete(self) -> None:
        """Raises KafkaError if the log is shorter than it once was, and no unclean election has accepted the loss."""
        end = self.log.log_end_offset
        if self._saved_leader is not None:
            self.known_end = max(self.known_end, self._saved_leader.end_offset)
        if end < self.known_end and not self.state.leader_recovery_state:
            reason = why_incomplete(self, end)
            self.forget_log()
            self.services.directories.take_out(self.topic_partition, self.topic_id, reason)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        if self.known_end:
            self.accept_loss()

    def open_for_consumers(self) -> PartitionLeader | FollowerReads:
        """Returns the leader or follower from which consumers read on this broker.

        Raises:
            KafkaError: the codes of `open_leader`; NOT_LEADER_OR_FOLLOWER also if another broker leads and the log is
                not open yet.
        """
        if self.leads:
            return self.open_leader()
        if self._log is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return FollowerReads(self._log, self.watermark_in_log())

    def open_follower(self) -> PartitionFollower | None:
        """Returns the follower epoch, which begins on first use (and opens the log); None if no other broker leads."""
        if self._follower is None and self.follows and not self.deleted:
            block = ExitStack()
            self._follower = block.enter_context(open_follower_epoch(self, self.state))
            self._epoch = block
        return self._follower

    def apply(self, state: PartitionImage) -> bool:
        """Applies newer metadata; returns True if a new epoch began."""
        old, self.state = self.state, state
        node_id = self.services.node_id
        has_joined = node_id in state.isr and node_id not in old.isr
        if has_joined and self._joined_empty():
            self.begin_empty()
        if self.known_end and has_joined:
            with self.services.directories.noting_failure(f"{self.name} goes on as it is"):
                self.accept_loss()  # the replica now has all committed records
        if state.leader_epoch == old.leader_epoch and state.leader == old.leader:
            if self.leads:
                self._count_isr_change(old)
            if self.leader_or_none is not None:
                self.leader_or_none.update(state)
            elif state.isr != old.isr:
                self.watchers.notify_all()  # a replica that has left the ISR must fetch to join it again
            return False
        self._end_epoch()
        self._saved_leader = None
        self.watchers.notify_all()
        return True

    def _joined_empty(self) -> bool:
        """Returns whether the leader may have admitted this replica to the ISR at offset 0, before it had a log.
        `begin_empty` checks whether it has one now.
        """
        return self._follower is not None and not self.state.leader_recovery_state

    def _count_isr_change(self, old: PartitionImage) -> None:
        before, after = set(old.isr), set(self.state.isr)
        self.services.traffic.isr_shrinks += not before <= after
        self.services.traffic.isr_expands += not after <= before

    def _end_epoch(self) -> None:
        if self.leader_or_none is not None:
            self.saved_watermark = self.leader_or_none.high_watermark.offset
        self.leader_or_none = self._follower = None
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None

    def settings_changed(self) -> None:
        """Applies the topic's new configuration."""
        if self._log is not None:
            self._log.config = self.settings.log
        if self.leader_or_none is not None:
            self.leader_or_none.settings_changed()

    def drop_lagging_followers(self) -> None:
        if self.leader_or_none is not None and self.leader_or_none.followers:
            self.leader_or_none.drop_lagging()

    def release_log(self) -> None:
        """Releases the epoch and the log, because the log has moved or was deleted; both are opened again on demand."""
        if self.leader_or_none is not None:
            self._saved_leader = self.leader_or_none.saved_state
        self._end_epoch()
        self.watchers.notify_all()
        if self._log is not None:
            self.known_end = max(self.known_end, self.saved_watermark)
        self.forget_log()

    def close(self) -> None:
        """Ends the epoch and releases the log permanently; the log directory closes or deletes it."""
        self.deleted = True
        self.release_log()

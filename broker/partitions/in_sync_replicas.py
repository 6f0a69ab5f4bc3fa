"""The followers of one leader epoch: their progress, the ISR, and the pending change of the ISR (KIP-497).

Decides without I/O: a request to the controller is returned as an `IsrChange`. Source: `Partition` and `PartitionState`
of Kafka.
"""

from __future__ import annotations

from dataclasses import replace

from trimaran.broker.partitions.isr import IsrState, ReplicaProgress, lagging, may_join
from trimaran.broker.partitions.isr_change import IsrChange, SavedLeaderState
from trimaran.broker.partitions.replica import Replica
from trimaran.quorum.metadata.image import PartitionImage
from trimaran.wire.identity import NO_BROKER_EPOCH, BrokerEpoch, BrokerId, Offset, PartitionEpoch

# An unclean leader accepts its log as it is: nothing is left to recover when it first proposes an ISR (KIP-704).
RECOVERED = 0


class InSyncReplicas:
    """The ISR of one leader epoch. `maximal` has the replicas that are or may already be in the ISR; `followers` has
    all replicas except the leader, which is `replica`.
    """

    __slots__ = ("_epoch", "_log", "_replica", "_services", "change", "followers", "isr", "maximal")

    def __init__(self, replica: Replica, state: PartitionImage) -> None:
        self._replica = replica
        self._services = replica.services
        self._log = replica.log
        self._epoch = state.leader_epoch
        self.followers: dict[BrokerId, ReplicaProgress] = {}
        self.change: IsrChange | None = None
        self.isr = IsrState(state.isr, state.partition_epoch)
        self.maximal = self.isr.maximal

    def _set(self, isr: IsrState) -> None:
        self.isr = isr
        self.maximal = isr.maximal
        if isr.proposed is None:
            self.change = None

    # -- size of the ISR

    @property
    def is_under_min(self) -> bool:
        """Whether the ISR has fewer members than min.insync.replicas."""
        members = len(self.isr.isr)
        return members <= len(self.followers) and self._is_too_few(members)

    @property
    def may_be_under_min(self) -> bool:
        """Whether the maximal ISR has fewer members than min.insync.replicas."""
        members = len(self.maximal)
        return members <= len(self.followers) and self._is_too_few(members)

    def _is_too_few(self, members: int) -> bool:
        """Returns whether `members` are too few; the callers have checked that some replica is missing, since
        min.insync.replicas may exceed the number of replicas.
        """
        return members < self._replica.settings.min_insync_replicas

    # -- changes of metadata

    def follow_assignment(self, state: PartitionImage) -> None:
        node_id, now = self._services.node_id, self._services.now()
        for replica_id in state.replicas:
            if replica_id != node_id and replica_id not in self.followers:
                progress = ReplicaProgress()
                if replica_id in state.isr or replica_id in self.maximal:
                    progress.caught_up_at = now  # a new leader gives its ISR the full time to fetch
                self.followers[replica_id] = progress
        for replica_id in self.followers.keys() - set(state.replicas):
            del self.followers[replica_id]

    def update(self, state: PartitionImage) -> None:
        """Applies newer metadata of the same leader epoch."""
        self.follow_assignment(state)
        if state.partition_epoch > self.isr.partition_epoch:
            self._set(IsrState(state.isr, state.partition_epoch))

    def resume(self, saved: SavedLeaderState) -> IsrChange | None:
        """Restores the state that this process had in the same epoch; returns the change to send again.

        The controller may have applied the change: until the outcome is known, the watermark waits for the replicas
        that it would add (KIP-497).
        """
        if saved.isr.partition_epoch < self.isr.partition_epoch:
            return None  # metadata already has the outcome
        self._set(saved.isr)
        self.change = saved.change
        return saved.change

    # -- changes of the ISR

    def about_to_join(self, replica_id: BrokerId, progress: ReplicaProgress) -> bool:
        """Whether the follower is caught up and eligible: the watermark then waits for it."""
        services = self._services
        end, lag_max = self._log.log_end_offset, services.lag_seconds_max
        return progress.caught_up(end, services.now(), lag_max) and self._eligible(
            replica_id, progress
        )

    def expand(
        self,
        replica_id: BrokerId,
        progress: ReplicaProgress,
        high_watermark: Offset,
        start_offset: Offset,
    ) -> IsrChange | None:
        """Returns a change that adds `replica_id`, if it may join and no change is pending."""
        if (
            self.isr.proposed is None
            and may_join(progress, high_watermark, start_offset, self._log.log_start_offset)
            and self._eligible(replica_id, progress)
        ):
            return self._propose((*self.isr.isr, replica_id))
        return None

    def shrink(self) -> IsrChange | None:
        """Returns a change that drops members that have not kept up, or None."""
        lost = lagging(
            self.isr,
            self.followers,
            leader_id=self._services.node_id,
            leader_end=self._log.log_end_offset,
            now=self._services.now(),
            lag_seconds_max=self._services.lag_seconds_max,
        )
        if not lost:
            return None
        return self._propose(tuple(member for member in self.isr.isr if member not in lost))

    def _eligible(self, replica_id: BrokerId, progress: ReplicaProgress) -> bool:
        """Whether the replica may be in the ISR (KIP-841, KIP-903, KIP-858): its broker is alive, is not shutting down,
        has the epoch of its last fetch, and the directory of the replica is online.
        """
        broker = self._services.metadata.image.cluster.brokers.get(replica_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and broker.epoch == progress.broker_epoch
            and broker.has_online(self._replica.state.directory_of(replica_id))
        )

    def _propose(self, isr: tuple[BrokerId, ...]) -> IsrChange:
        change = self.change = IsrChange(
            partition=self._replica.topic_id_partition,
            leader_epoch=self._epoch,
            partition_epoch=self.isr.partition_epoch,
            leader_recovery_state=RECOVERED,
            new_isr=tuple((member, self._broker_epoch(member)) for member in isr),
        )
        self._set(replace(self.isr, proposed=isr))
        return change

    def _broker_epoch(self, replica_id: BrokerId) -> BrokerEpoch:
        if replica_id == self._services.node_id:
            return self._services.broker_epoch()
        progress = self.followers.get(replica_id)
        return NO_BROKER_EPOCH if progress is None else progress.broker_epoch

    # -- answers of the controller

    def committed(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> None:
        """Applies the committed ISR, unless metadata already has a newer one."""
        if partition_epoch >= self.isr.partition_epoch:
            self._set(IsrState(isr, partition_epoch))

    def not_applied(self) -> None:
        """Drops the proposal, which the controller has not applied: the committed ISR remains."""
        self._set(replace(self.isr, proposed=None))

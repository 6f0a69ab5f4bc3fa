"""A replica on this broker: what outlives the epochs in which it leads or follows.

Source: `Partition` of Kafka. A partition that nobody reads or writes is a row here: the log is opened, and the epoch made,
when first asked for. A replica that moves to
another directory is copied elsewhere (`broker.background.directory_moves`) and then takes this one's place.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from broker.partitions.follower import FollowerEpoch, open_follower_epoch
from broker.partitions.isr_change import Standing
from broker.partitions.leader import LeaderEpoch, open_leader_epoch
from broker.partitions.watchers import Watchers
from log.partitions.partition_log import PartitionLog
from quorum.metadata.image import PartitionImage
from wire.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from broker.metadata.topic_settings import TopicSettings
    from broker.partitions.services import Services
    from log.directories.directory import LogDirectory

# That the garbage collector would walk: an open log with its segment, and the epoch.
OBJECTS_OF_LOG = 50


class Partition:
    """`state` is the newest metadata; at most one of leader and follower epoch is alive, and it is of `state`'s epoch.

    `_epoch` is that epoch's block, held open here: closing it, whatever else happens, is what ends the epoch.
    """

    __slots__ = (
        "_epoch",
        "_follower",
        "_leader",
        "_log",
        "_saved_watermark",
        "_standing",
        "deleted",
        "index",
        "services",
        "state",
        "topic",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        services: Services,
        topic: str,
        index: int,
        topic_id: bytes,
        state: PartitionImage,
        saved_watermark: int = 0,
    ) -> None:
        self.services = services
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.state = state
        self.deleted = False
        self.watchers = Watchers()
        self._saved_watermark = saved_watermark
        self._log: PartitionLog | None = None
        self._epoch: ExitStack | None = None
        self._leader: LeaderEpoch | None = None
        self._follower: FollowerEpoch | None = None
        self._standing: Standing | None = None  # of this epoch, while its log is let go of

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.index}"

    def __repr__(self) -> str:
        return f"<partition {self.name} leader {self.state.leader} epoch {self.state.leader_epoch}>"

    # -- the log

    @property
    def settings(self) -> TopicSettings:
        return self.services.settings.of(self.topic)

    @property
    def log(self) -> PartitionLog:
        """The log, opened (or created) when first needed; blocks for as long as that takes.

        Raises:
            KafkaError: KAFKA_STORAGE_ERROR; UNKNOWN_TOPIC_OR_PARTITION once the partition is gone from here.
        """
        if self._log is None:
            if self.deleted:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._log = self.services.directories.open_log(
                self.topic,
                self.index,
                self.topic_id,
                self.settings.log,
                self.state.directory_of(self.services.node_id),
            )
            self.services.long_lived.add(OBJECTS_OF_LOG)
        return self._log

    @property
    def must_check(self) -> bool:
        """Whether asking for `log` would check what a crash left of it: `check` does that in a thread."""
        return self._log is None and self.services.directories.must_check(self.topic, self.index)

    async def check(self) -> None:
        """Raises KafkaError as `log`."""
        await self.services.directories.check_log(
            self.topic, self.index, self.topic_id, self.settings.log
        )

    def claim(self) -> None:
        """Nobody leads: see `LogDirectories.claim`."""
        node_id = self.services.node_id
        self.services.directories.claim(
            self.topic,
            self.index,
            self.topic_id,
            self.state.directory_of(node_id),
            is_only_replica=self.state.replicas == (node_id,),
        )

    def prefer(self, target: LogDirectory) -> bool:
        """See `LogDirectories.prefer`."""
        return self.services.directories.prefer(
            self.topic,
            self.index,
            self.topic_id,
            self.state.directory_of(self.services.node_id),
            target,
        )

    @property
    def is_new(self) -> bool:
        """The replica has no directory yet, so there is nothing in it."""
        return self._log is None and self.services.directories.is_new(self.topic, self.index)

    def is_untouched_for(self, replica_id: int) -> bool:
        """Led here, never written to, and the follower `replica_id` is in sync with that: it can be told so without a log."""
        unasked = self._leader is None and self.leads and not self.deleted
        return unasked and replica_id in self.state.isr and self.is_new

    @property
    def open_log(self) -> PartitionLog | None:
        """The log if it is open."""
        return self._log

    def watermark_in_log(self) -> int:
        """The last known high watermark, held to what the log has after a crash or truncation."""
        log = self.log
        return max(log.log_start_offset, min(self._saved_watermark, log.log_end_offset))

    @property
    def high_watermark(self) -> int:
        """The newest one known here; does not open the log."""
        if self._leader is not None:
            return self._leader.high_watermark.offset
        return self._saved_watermark

    def save_watermark(self, offset: int) -> None:
        """Takes over the leader's high watermark, as a follower."""
        self._saved_watermark = offset

    def flushed(self, _offset: int) -> None:
        """Group commit's word that the log is durable further than before."""
        if self._leader is not None:
            self._leader.flushed()
        elif self._follower is not None:
            self._follower.flushed()

    # -- epochs

    @property
    def leads(self) -> bool:
        return self.state.leader == self.services.node_id

    @property
    def follows(self) -> bool:
        return self.state.leader >= 0 and not self.leads

    @property
    def leader(self) -> LeaderEpoch | None:
        """The leader epoch if this broker leads, begun when first asked for (then this opens the log)."""
        if self._leader is None and self.leads and not self.deleted:
            block = ExitStack()
            self._leader = block.enter_context(
                open_leader_epoch(self, self.state, self.services.now(), self._standing)
            )
            self._epoch = block
            self._standing = None
            self._saved_watermark = self._leader.high_watermark.offset
            self.watchers.look_again()
        return self._leader

    @property
    def begun_leader(self) -> LeaderEpoch | None:
        """The leader epoch if it has been asked for already."""
        return self._leader

    def follower(self) -> FollowerEpoch | None:
        """The follower epoch if another broker leads, begun when first asked for (then this opens the log)."""
        if self._follower is None and self.follows and not self.deleted:
            block = ExitStack()
            self._follower = block.enter_context(open_follower_epoch(self, self.state))
            self._epoch = block
        return self._follower

    def apply(self, state: PartitionImage) -> bool:
        """Goes over to newer metadata; returns True if a new epoch began."""
        old, self.state = self.state, state
        if state.leader_epoch == old.leader_epoch and state.leader == old.leader:
            if self._leader is not None:
                self._leader.update(state)
            elif state.isr != old.isr:
                self.watchers.look_again()  # who has left it needs a leader to come back
            return False
        self._end_epoch()
        self._standing = None
        self.watchers.look_again()
        return True

    def _end_epoch(self) -> None:
        if self._leader is not None:
            self._saved_watermark = self._leader.high_watermark.offset
        self._leader = self._follower = None
        if self._epoch is not None:
            self._epoch.close()
            self._epoch = None

    def settings_changed(self) -> None:
        """The topic's configuration is another one."""
        if self._log is not None:
            self._log.config = self.settings.log
        if self._leader is not None:
            self._leader.settings_changed()

    def let_go(self) -> None:
        """Lets go of the epoch and of the log, which is somewhere else now or nowhere; both come anew when asked for."""
        if self._leader is not None:
            self._standing = self._leader.standing
        self._end_epoch()
        self.watchers.look_again()
        if self._log is not None:
            self.services.commit.forget(self._log)
            self._log = None

    def close(self) -> None:
        """Ends the epoch and lets go of the log, which its directory closes or deletes, for good."""
        self.deleted = True
        self.let_go()

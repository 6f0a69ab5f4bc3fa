"""One input to a share group, and the group's long-running work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from trimaran.broker.groups.heartbeating.assigning import TargetWork
from trimaran.broker.groups.heartbeating.member import Partitions
from trimaran.broker.groups.heartbeating.operation import (
    HeartbeatOperation,
    HeartbeatTimer,
    HeartbeatWork,
)
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.member import ShareMember
from trimaran.broker.groups.share.records import RECORDS, epoch_record
from trimaran.broker.groups.share.settings import ShareGroupSettings
from trimaran.broker.groups.share.start_offsets import NewOffsets
from trimaran.broker.groups.topics import metadata_hash
from trimaran.wire.identity import Offset, StateEpoch, TopicIdPartition

StartOffsets = TypeVar("StartOffsets", bound=Mapping[TopicIdPartition, Offset | None])


class Initialization(NamedTuple, Generic[StartOffsets]):
    """States of share partitions to store: each with its start offset; None means the offset of
    `share.auto.offset.reset`.
    """

    state_epoch: StateEpoch
    offsets: StartOffsets


@dataclass(slots=True)
class ShareWork(HeartbeatWork):
    """The long-running work for one share group."""

    # The target that is being computed or written.
    target: TargetWork[Partitions] | None = None
    # The version of the metadata for which the group's hash was last checked.
    checked_topics: object = None
    # The target, share partitions and subscribed names with which `lacks_initialized` last found no difference.
    checked_target: tuple[object, object, object] | None = None
    # The time (wall clock, ms) since which a topic has partitions that are being initialized.
    initializing_since: dict[bytes, int] = field(default_factory=dict)
    # The initialization that waits for the commit of its records, and the one that runs. At most one of the two exists.
    waiting: Initialization[NewOffsets] | None = None
    running: Initialization[NewOffsets] | None = None


@dataclass(slots=True)
class ShareOperation(HeartbeatOperation[ShareGroup, ShareMember, ShareGroupSettings, ShareWork]):
    """One input to a share group."""

    RECORDS = RECORDS

    # The initialization that begins when the records are committed.
    begun: Initialization[NewOffsets] | None = None

    def bump_epoch(self) -> None:
        """Increments the epoch after a change of members, topics or initialized partitions: the target must be
        recomputed.
        """
        topics = metadata_hash(self.group.name_counts, self.topics)
        self.work.checked_topics = self.topics.version
        self.write([epoch_record(self.group.id, self.group.epoch + 1, topics)])

    def drop_target(self) -> None:
        """Drops a target that is not finished: a later heartbeat begins another."""
        self.work.target = None
        self.cancel_timer(HeartbeatTimer.TARGET)

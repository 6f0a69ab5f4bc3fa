"""One member of a share group, and its partitions.

Source: Kafka's `ShareGroupMember`. Values are immutable: a record creates a new one. A member has its assignment at
once: it reconciles with no other member, because members may share a partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trimaran.broker.groups.heartbeating.member import (
    JOINING_EPOCH,
    Partitions,
    partitions_bytes,
    partitions_of,
)
from trimaran.broker.groups.memory import MEMBER_BYTES
from trimaran.node.text.memory import text_bytes, texts_bytes
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.share_groups import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    TopicPartitions,
)

NO_EPOCH = GroupEpoch(-1)

# The only state of a member in records: its assignment is that of its epoch.
STABLE = 0


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member, as given by its records. `subscribed_names` is sorted."""

    id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_names: tuple[str, ...] = ()
    epoch: GroupEpoch = JOINING_EPOCH
    previous_epoch: GroupEpoch = NO_EPOCH
    state: int = STABLE
    assigned: Partitions = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        """The approximate size of the member's subscription, in bytes."""
        return texts_bytes(self.subscribed_names)

    @property
    def held_bytes(self) -> int:
        """The approximate size of the member in memory, in bytes."""
        texts = (self.id, self.client_id, self.client_host, self.rack_id)
        said = self.bytes + sum(text_bytes(text) for text in texts if text is not None)
        return MEMBER_BYTES + said + partitions_bytes(self.assigned)

    def is_reconciled_to(self, assignment_epoch: GroupEpoch) -> bool:
        return self.state == STABLE and self.epoch == assignment_epoch

    # -- records

    def with_metadata(self, value: ShareGroupMemberMetadataValue) -> ShareMember:
        return replace(
            self,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_names=tuple(sorted(set(value.subscribed_topic_names))),
        )

    def metadata_value(self) -> ShareGroupMemberMetadataValue:
        return ShareGroupMemberMetadataValue(
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=list(self.subscribed_names),
        )

    def with_current(self, value: ShareGroupCurrentMemberAssignmentValue) -> ShareMember:
        return replace(
            self,
            epoch=value.member_epoch,
            previous_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=partitions_of(value.assigned_partitions),
        )

    def current_value(self) -> ShareGroupCurrentMemberAssignmentValue:
        return ShareGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=self.state,
            assigned_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
                for topic_id, partitions in self.assigned.items()
            ],
        )

    def __str__(self) -> str:
        return f"{self.id} epoch {self.epoch}"

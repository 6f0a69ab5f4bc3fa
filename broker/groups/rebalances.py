"""The records that rebalance a group: those that give it a new epoch or, if it is classic, a new generation.

Source: the places where Kafka's `GroupMetadataManager` records the sensors of rebalances. Without members, a classic
group has no rebalance.
"""

from __future__ import annotations

from typing import NamedTuple

from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.store import GroupStore
from trimaran.wire.identity import GroupEpoch
from trimaran.wire.records.consumer_groups import ConsumerGroupMetadataKey
from trimaran.wire.records.groups import GroupMetadataKey
from trimaran.wire.records.share_groups import ShareGroupMetadataKey
from trimaran.wire.records.streams_groups import StreamsGroupMetadataKey


class EpochRecord(NamedTuple):
    """The kind of a group in whose record of a type the epoch is, with the names of fields."""

    kind: str
    group_id: str = "group_id"
    epoch: str = "epoch"


EPOCH_RECORDS = {
    GroupMetadataKey.KEY: EpochRecord("classic", "group", "generation"),
    ConsumerGroupMetadataKey.KEY: EpochRecord("consumer"),
    ShareGroupMetadataKey.KEY: EpochRecord("share"),
    StreamsGroupMetadataKey.KEY: EpochRecord("streams"),
}
"""By type of the key."""


def is_rebalance(store: GroupStore, record: GroupRecord, known: EpochRecord) -> bool:
    """Whether the record, which is not yet applied, gives its group another epoch."""
    value = record.value
    if value is None or not getattr(value, "members", True):
        return False
    before = store.of(known.kind).get(getattr(record.key, known.group_id))
    epoch: GroupEpoch = getattr(value, known.epoch)
    return before is None or epoch != getattr(before, known.epoch)

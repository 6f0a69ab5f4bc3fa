"""Classic groups as a kind of group: their record, and their entry in the table of kinds."""

from __future__ import annotations

from trimaran.broker.groups.classic.groups import CLASSIC, ClassicGroups
from trimaran.broker.groups.kinds import EpochRecord, GroupKind
from trimaran.broker.groups.records import GroupRecord, RecordType
from trimaran.broker.groups.store import GroupStore
from trimaran.wire.records.groups import GroupMetadataKey, GroupMetadataValue


def _replay(store: GroupStore, record: GroupRecord) -> None:
    """Stores the last value of a group; a tombstone also removes a group that only has offsets."""
    key, value = record
    assert isinstance(key, GroupMetadataKey)
    store.emptied.take(key.group)
    if value is None:
        store.of(CLASSIC).take(key.group)
    else:
        store.of(CLASSIC)[key.group] = value


def _has_members(value: GroupMetadataValue) -> bool:
    return bool(value.members)


KIND = GroupKind(
    name=CLASSIC,
    records=(RecordType(GroupMetadataKey, GroupMetadataValue, version=3),),
    replay=_replay,
    has_members=_has_members,
    make=ClassicGroups,
    states=("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    epoch_record=EpochRecord(GroupMetadataKey, "group", "generation"),
)

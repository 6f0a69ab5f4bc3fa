"""The streams groups as a kind (KIP-1071): their records, and their line's values in the table of kinds."""

from __future__ import annotations

from collections.abc import Callable

from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.kinds import EnabledBy, GroupKind, Settings, ShardParts
from trimaran.broker.groups.memory import ByGroup
from trimaran.broker.groups.records import GroupRecord, RecordType
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.groups.streams.describe import STREAMS
from trimaran.broker.groups.streams.group import StreamsGroup
from trimaran.broker.groups.streams.groups import StreamsGroups
from trimaran.broker.groups.streams.settings import ConfiguredStreamsGroups, StreamsGroupSettings
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.features import STREAMS_VERSION
from trimaran.quorum.metadata.image import ConfigsImage
from trimaran.wire.records import streams_groups as wire

DEFAULTS = StreamsGroupSettings()


def _make(parts: ShardParts) -> StreamsGroups:
    settings = parts.dependencies.settings.get(STREAMS, lambda _group_id: DEFAULTS)
    return StreamsGroups(parts, settings, parts.of(classic.KIND))


def _settings(config: ServerConfig, configs: Callable[[], ConfigsImage]) -> Settings:
    return ConfiguredStreamsGroups(config, configs).of


def _replay(store: GroupStore, record: GroupRecord) -> None:
    """A group begins with its first record, and ends with its last tombstone."""
    group_id: str = record.key.group_id  # type: ignore[attr-defined]
    groups: ByGroup[StreamsGroup] = store.of(STREAMS)
    group = groups.get(group_id)
    if group is None:
        if record.value is None:
            return
        group = groups[group_id] = StreamsGroup(group_id)
        store.emptied.take(group_id)
    before = group.held_bytes
    group.apply(record.key, record.value)
    member = (group_id, getattr(record.key, "member_id", ""))
    if member[1] in group.members or member[1] in group.target:
        store.account.change(member, group.held_bytes - before)
    else:
        store.account.gone(member, before - group.held_bytes)
    if group.is_gone:
        del groups[group_id]


def _has_members(group: StreamsGroup) -> bool:
    return not group.is_empty


_TYPES = (
    (wire.StreamsGroupMetadataKey, wire.StreamsGroupMetadataValue),
    (wire.StreamsGroupMemberMetadataKey, wire.StreamsGroupMemberMetadataValue),
    (wire.StreamsGroupTargetAssignmentMetadataKey, wire.StreamsGroupTargetAssignmentMetadataValue),
    (wire.StreamsGroupTargetAssignmentMemberKey, wire.StreamsGroupTargetAssignmentMemberValue),
    (wire.StreamsGroupCurrentMemberAssignmentKey, wire.StreamsGroupCurrentMemberAssignmentValue),
    (wire.StreamsGroupTopologyKey, wire.StreamsGroupTopologyValue),
)

KIND = GroupKind(
    name=STREAMS,
    records=tuple(RecordType(key, value) for key, value in _TYPES),
    replay=_replay,
    has_members=_has_members,
    make=_make,
    settings=_settings,
    enabled_by=EnabledBy(STREAMS_VERSION, "streams", "Streams groups are not enabled."),
)

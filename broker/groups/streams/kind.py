"""The streams groups as a kind (KIP-1071): their records, and their line's values in the table of kinds."""

from __future__ import annotations

from collections.abc import Callable

from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.heartbeating.kind import has_members, replays
from trimaran.broker.groups.kinds import EnabledBy, EpochRecord, GroupKind, Settings, ShardParts
from trimaran.broker.groups.records import RecordType
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
    replay=replays(STREAMS, StreamsGroup),
    has_members=has_members,
    make=_make,
    states=("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
    epoch_record=EpochRecord(wire.StreamsGroupMetadataKey),
    settings=_settings,
    enabled_by=EnabledBy(STREAMS_VERSION, "streams", "Streams groups are not enabled."),
)

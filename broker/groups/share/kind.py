"""The share groups as a kind (KIP-932): their records, and their entry in the table of kinds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from trimaran.broker.coordination.shard_epoch import ShardEpoch
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.heartbeating.kind import has_members, replays
from trimaran.broker.groups.kinds import (
    EnabledBy,
    EpochRecord,
    FollowUpParts,
    GroupKind,
    Settings,
    ShardParts,
)
from trimaran.broker.groups.records import GroupRecord, RecordType
from trimaran.broker.groups.share.describe import SHARE
from trimaran.broker.groups.share.group import ShareGroup
from trimaran.broker.groups.share.groups import ShareGroups
from trimaran.broker.groups.share.operation import Initialization
from trimaran.broker.groups.share.settings import ShareGroupSettings, configured
from trimaran.broker.groups.share.start_offsets import NewOffsets
from trimaran.broker.groups.store import GroupStore
from trimaran.broker.share_state.changes import InitializedStates, by_topic, initialize_all
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.features import SHARE_VERSION
from trimaran.quorum.metadata.image import ConfigsImage
from trimaran.wire.errors import KafkaError
from trimaran.wire.records.share_groups import (
    SHARE_GROUP_RECORDS,
    ShareGroupMetadataKey,
    ShareGroupPartitionMetadataKey,
)

DEFAULTS = ShareGroupSettings()


def _make(parts: ShardParts) -> ShareGroups:
    return ShareGroups(parts, parts.dependencies.settings.get(SHARE, lambda _group_id: DEFAULTS))


def _settings(config: ServerConfig, configs: Callable[[], ConfigsImage]) -> Settings:
    return configured(config, configs).of


_replay_known = replays(SHARE, ShareGroup)


def _replay(store: GroupStore, record: GroupRecord) -> None:
    """Ignores records of type 9, which have no meaning any more."""
    if not isinstance(record.key, ShareGroupPartitionMetadataKey):
        _replay_known(store, record)


# -- the states of share partitions, which share coordinators store


async def _initialize(
    parts: FollowUpParts, epoch: ShardEpoch[Any, GroupRecord], group_id: str
) -> None:
    """Initializes the states that a heartbeat of a group has named."""
    if (states := parts.share_states) is None:
        return
    with suppress(KafkaError):  # the epoch has ended
        begun = epoch.active().of(KIND).begin_initialization(group_id)
        if begun is not None:
            outcome = await by_topic(await initialize_all(states, group_id, *begun))
            epoch.step(partial(_take_over, group_id, begun, outcome))


def _take_over(
    group_id: str,
    begun: Initialization[NewOffsets],
    outcome: InitializedStates,
    shard: Any,
    at: Instant,
) -> None:
    shard.of(KIND).initialized(group_id, begun, outcome, at)


KIND = GroupKind(
    name=SHARE,
    records=tuple(RecordType(key, value) for key, value in SHARE_GROUP_RECORDS.values()),
    replay=_replay,
    has_members=has_members,
    make=_make,
    states=("Empty", "Stable", "Dead"),
    epoch_record=EpochRecord(ShareGroupMetadataKey),
    settings=_settings,
    follow_up=_initialize,
    enabled_by=EnabledBy(SHARE_VERSION, "", "Share groups are not enabled."),
)

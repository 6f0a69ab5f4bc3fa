"""Consumer groups as a kind of group (KIP-848): their records, and their entry in the table of kinds."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from trimaran.broker.coordination.shard_epoch import ShardEpoch
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.consumer.describe import CONSUMER
from trimaran.broker.groups.consumer.group import ConsumerGroup
from trimaran.broker.groups.consumer.groups import ConsumerGroups
from trimaran.broker.groups.consumer.settings import ConsumerGroupSettings, configured
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
from trimaran.broker.metadata.topic_patterns import TopicPatterns, Topics
from trimaran.node.config.server import ServerConfig
from trimaran.node.runtime.pacing import Paced
from trimaran.quorum.metadata.features import GROUP_VERSION
from trimaran.quorum.metadata.image import ConfigsImage
from trimaran.wire.errors import KafkaError
from trimaran.wire.records.consumer_groups import (
    CONSUMER_GROUP_RECORDS,
    ConsumerGroupMetadataKey,
)

DEFAULTS = ConsumerGroupSettings()


def _make(parts: ShardParts) -> ConsumerGroups:
    settings = parts.dependencies.settings.get(CONSUMER, lambda _group_id: DEFAULTS)
    return ConsumerGroups(parts, settings, parts.of(classic.KIND))


def _settings(config: ServerConfig, configs: Callable[[], ConfigsImage]) -> Settings:
    return configured(config, configs).of


# -- patterns, which are resolved outside of the shard


async def _resolve_patterns(
    parts: FollowUpParts, epoch: ShardEpoch[Any, GroupRecord], group_id: str
) -> None:
    """Resolves the patterns that members of a group subscribe to, one after the other."""
    with suppress(KafkaError):  # the epoch has ended
        while (asked := epoch.active().of(KIND).next_regex(group_id)) is not None:
            regex, may_see = asked
            image = parts.metadata.image
            found = await _resolved(parts.patterns, regex, image.topics.by_name, may_see)
            offset = image.provenance.offset
            epoch.step(partial(_take_over, group_id, regex, found, offset))


async def _resolved(
    patterns: TopicPatterns, regex: str, topics: Topics, may_see: Callable[[str], bool]
) -> frozenset[str] | None:
    """Returns the matching topics, or None if this broker rejects a pattern that another coordinator has accepted."""
    try:
        names = await patterns.matching(regex, topics)
    except KafkaError:
        return None
    return frozenset([name async for name in Paced(names) if may_see(name)])


def _take_over(
    group_id: str,
    regex: str,
    topics: frozenset[str] | None,
    version: int,
    shard: Any,
    at: Instant,
) -> None:
    shard.of(KIND).regex_resolved(group_id, regex, topics, version, at)


KIND = GroupKind(
    name=CONSUMER,
    records=tuple(RecordType(key, value) for key, value in CONSUMER_GROUP_RECORDS.values()),
    replay=replays(CONSUMER, ConsumerGroup),
    has_members=has_members,
    make=_make,
    states=("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    epoch_record=EpochRecord(ConsumerGroupMetadataKey),
    settings=_settings,
    follow_up=_resolve_patterns,
    enabled_by=EnabledBy(GROUP_VERSION, "consumer", "The consumer group protocol is not enabled."),
)

"""The settings of streams groups: the broker's `group.streams.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`, `GroupMetadataManager.streamsGroupAssignmentConfigs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimaran.broker.groups.heartbeating.settings import (
    ConfiguredSettings,
    HeartbeatSettings,
    OwnConfig,
)
from trimaran.node.config.config_def import INT_MAX, LONG_MAX
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.streams_group_keys import STREAMS_ASSIGNOR_NAMES
from trimaran.quorum.metadata.image import ConfigsImage

# The maximum length of an id chosen by a member, and the maximum size of its own texts with its tags: they are in its
# records.
MEMBER_ID_CHARACTERS_MAX = 1_000
MEMBER_TEXT_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class StreamsGroupSettings(HeartbeatSettings):
    """The current settings of one streams group."""

    initial_rebalance_delay_ms: int = 3_000
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000
    assignor: str = "sticky"
    standby_replicas: int = 0
    rack_aware_tags: tuple[str, ...] = ()
    members_max: int = 0x7FFFFFFF

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """The settings that require a new assignment when they change, as in records."""
        configs = {"num.standby.replicas": str(self.standby_replicas)}
        if self.rack_aware_tags:
            configs["rack.aware.assignment.tags"] = ",".join(self.rack_aware_tags)
        return configs


class ConfiguredStreamsGroups(ConfiguredSettings[StreamsGroupSettings]):
    """The current settings by group id."""

    def __init__(self, config: ServerConfig, configs: Callable[[], ConfigsImage]) -> None:
        base = StreamsGroupSettings(
            session_timeout_ms=config["group.streams.session.timeout.ms"],
            heartbeat_interval_ms=config["group.streams.heartbeat.interval.ms"],
            initial_rebalance_delay_ms=config["group.streams.initial.rebalance.delay.ms"],
            task_offset_interval_ms=config["group.streams.task.offset.interval.ms"],
            acceptable_recovery_lag=config["group.streams.acceptable.recovery.lag"],
            assignor=STREAMS_ASSIGNOR_NAMES[config["group.streams.assignors"][0]],
            standby_replicas=config["group.streams.num.standby.replicas"],
            rack_aware_tags=tuple(config["group.streams.rack.aware.assignment.tags"]),
            members_max=config["group.streams.max.size"],
        )
        own = {
            "initial_rebalance_delay_ms": OwnConfig(
                "streams.initial.rebalance.delay.ms", 0, INT_MAX
            ),
            "task_offset_interval_ms": OwnConfig(
                "streams.task.offset.interval.ms",
                config["group.streams.min.task.offset.interval.ms"],
                INT_MAX,
            ),
            "acceptable_recovery_lag": OwnConfig("streams.acceptable.recovery.lag", 0, LONG_MAX),
            "standby_replicas": OwnConfig(
                "streams.num.standby.replicas", 0, config["group.streams.max.standby.replicas"]
            ),
        }
        super().__init__("streams", base, config, configs, own)

    def _changes(self, own: Mapping[str, str]) -> dict[str, Any]:
        changes = super()._changes(own)
        if (tags := own.get(_TAGS)) is not None:
            changes["rack_aware_tags"] = tuple(GROUP_CONFIGS[_TAGS].parse(tags))
        if (assignor := own.get("streams.assignor.name")) in STREAMS_ASSIGNOR_NAMES:
            changes["assignor"] = STREAMS_ASSIGNOR_NAMES[assignor]
        return changes


_TAGS = "streams.rack.aware.assignment.tags"

"""The settings of streams groups: the broker's `group.streams.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`, `GroupMetadataManager.streamsGroupAssignmentConfigs`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trimaran.node.config.config_def import INT_MAX, LONG_MAX
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.streams_group_keys import STREAMS_ASSIGNOR_NAMES
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage
from trimaran.quorum.serving.node_configs import NodeConfigs

# The maximum length of an id chosen by a member, and the maximum size of its own texts with its tags: they are in its
# records.
MEMBER_ID_CHARACTERS_MAX = 1_000
MEMBER_TEXT_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class StreamsGroupSettings:
    """The current settings of one group; the defaults are those of Kafka 4.4."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
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


class ConfiguredStreamsGroups:
    """The current settings by group id; altered values apply from the next heartbeat on."""

    def __init__(self, config: ServerConfig, configs: Callable[[], ConfigsImage]) -> None:
        self._configs = configs
        self._now = NodeConfigs(config, configs)
        self._base = StreamsGroupSettings(
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
        self._bounds: dict[str, tuple[int, int]] = {
            "streams.session.timeout.ms": (
                config["group.streams.min.session.timeout.ms"],
                config["group.streams.max.session.timeout.ms"],
            ),
            "streams.heartbeat.interval.ms": (
                config["group.streams.min.heartbeat.interval.ms"],
                config["group.streams.max.heartbeat.interval.ms"],
            ),
            "streams.assignment.interval.ms": (
                config["group.streams.min.assignment.interval.ms"],
                config["group.streams.max.assignment.interval.ms"],
            ),
            "streams.task.offset.interval.ms": (
                config["group.streams.min.task.offset.interval.ms"],
                INT_MAX,
            ),
            "streams.num.standby.replicas": (0, config["group.streams.max.standby.replicas"]),
            "streams.initial.rebalance.delay.ms": (0, INT_MAX),
            "streams.acceptable.recovery.lag": (0, LONG_MAX),
        }
        # The settings of groups without their own configs, cached for one state of the configs.
        self._known: tuple[ConfigsImage, StreamsGroupSettings] | None = None

    def of(self, group_id: str) -> StreamsGroupSettings:
        configs = self._configs()
        if self._known is None or self._known[0] is not configs:
            interval = self._now.now("group.streams.assignment.interval.ms")
            self._known = configs, replace(self._base, assignment_interval_ms=interval)
        base = self._known[1]
        own = configs.of(GROUP_RESOURCE, group_id)
        return self._with_own(base, own) if own else base

    def _with_own(self, base: StreamsGroupSettings, own: Mapping[str, str]) -> StreamsGroupSettings:
        """Returns the settings with those of the group, within the broker's bounds. Its assignor is the only one."""

        def value(key: str, otherwise: int) -> int:
            if key not in own:
                return otherwise
            low, high = self._bounds[key]
            wanted: int = GROUP_CONFIGS[key].parse(own[key])
            return max(low, min(high, wanted))

        tags = own.get("streams.rack.aware.assignment.tags")
        assignor = own.get("streams.assignor.name")
        return replace(
            base,
            session_timeout_ms=value("streams.session.timeout.ms", base.session_timeout_ms),
            heartbeat_interval_ms=value(
                "streams.heartbeat.interval.ms", base.heartbeat_interval_ms
            ),
            assignment_interval_ms=value(
                "streams.assignment.interval.ms", base.assignment_interval_ms
            ),
            initial_rebalance_delay_ms=value(
                "streams.initial.rebalance.delay.ms", base.initial_rebalance_delay_ms
            ),
            task_offset_interval_ms=value(
                "streams.task.offset.interval.ms", base.task_offset_interval_ms
            ),
            acceptable_recovery_lag=value(
                "streams.acceptable.recovery.lag", base.acceptable_recovery_lag
            ),
            standby_replicas=value("streams.num.standby.replicas", base.standby_replicas),
            rack_aware_tags=(
                base.rack_aware_tags
                if tags is None
                else tuple(GROUP_CONFIGS["streams.rack.aware.assignment.tags"].parse(tags))
            ),
            assignor=STREAMS_ASSIGNOR_NAMES.get(assignor or "", base.assignor),
        )

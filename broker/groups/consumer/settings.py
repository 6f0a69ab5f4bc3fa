"""The settings of consumer groups: the broker's `group.consumer.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`, `ConsumerGroupMigrationPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from trimaran.node.config.consumer_group_keys import ASSIGNOR_NAMES
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage
from trimaran.quorum.serving.node_configs import NodeConfigs

# The maximum size of one member's subscription (topics and pattern). It must fit into a record of a megabyte, together
# with the rest of the member.
SUBSCRIPTION_BYTES_MAX = 512 << 10

# The maximum length of an id chosen by a member: it is in the keys of four records, and a batch has the targets of many
# members.
MEMBER_ID_CHARACTERS_MAX = 1_000

# While a group reconciles, its members must send heartbeats more often, since each step would otherwise take a
# heartbeat interval of seconds. The first limit is the minimum interval, the second the maximum rate of all members
# together.
RECONCILING_INTERVAL_MS_MIN = 500
RECONCILING_HEARTBEATS_PER_SECOND_MAX = 500
# The time for which a group still counts as reconciling after its last assignment, because other members may be about
# to join.
RECONCILING_MS = 3_000


class MigrationPolicy(Enum):
    """The directions in which a group with members may change its protocol; empty groups may always change."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def may_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def may_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings:
    """The current settings of one group; the defaults are those of Kafka 4.4."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    reconciling_interval_ms_min: int = RECONCILING_INTERVAL_MS_MIN
    assignment_interval_ms: int = 1_000
    assignors: tuple[str, ...] = ("uniform", "range")
    members_max: int = 0x7FFFFFFF
    classic_members_max: int = 0x7FFFFFFF
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


# If set explicitly, it also applies while a group reconciles; its default of 5 s does not.
LEAST_HEARTBEAT_INTERVAL = "group.consumer.min.heartbeat.interval.ms"


class ConfiguredGroups:
    """The current settings by group id; altered values apply from the next heartbeat on."""

    def __init__(self, config: ServerConfig, configs: Callable[[], ConfigsImage]) -> None:
        self._configs = configs
        self._now = NodeConfigs(config, configs)
        self._base = ConsumerGroupSettings(
            session_timeout_ms=config["group.consumer.session.timeout.ms"],
            heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
            reconciling_interval_ms_min=max(
                RECONCILING_INTERVAL_MS_MIN, config.explicit.get(LEAST_HEARTBEAT_INTERVAL, 0)
            ),
            assignors=tuple(
                dict.fromkeys(ASSIGNOR_NAMES[name] for name in config["group.consumer.assignors"])
            ),
            members_max=config["group.consumer.max.size"],
            classic_members_max=config["group.max.size"],
            migration=MigrationPolicy(config["group.consumer.migration.policy"].lower()),
            regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
        )
        self._session = (
            config["group.consumer.min.session.timeout.ms"],
            config["group.consumer.max.session.timeout.ms"],
        )
        self._heartbeat = (
            config[LEAST_HEARTBEAT_INTERVAL],
            config["group.consumer.max.heartbeat.interval.ms"],
        )
        self._assignment = (
            config["group.consumer.min.assignment.interval.ms"],
            config["group.consumer.max.assignment.interval.ms"],
        )
        # The settings of groups without their own configs, cached for one state of the configs.
        self._known: tuple[ConfigsImage, ConsumerGroupSettings] | None = None

    def of(self, group_id: str) -> ConsumerGroupSettings:
        configs = self._configs()
        if self._known is None or self._known[0] is not configs:
            interval = self._now.now("group.consumer.assignment.interval.ms")
            self._known = configs, replace(self._base, assignment_interval_ms=interval)
        base = self._known[1]
        own = configs.of(GROUP_RESOURCE, group_id)
        return self._with_own(base, own) if own else base

    def _with_own(
        self, base: ConsumerGroupSettings, own: Mapping[str, str]
    ) -> ConsumerGroupSettings:
        def value(key: str, otherwise: int, bounds: tuple[int, int]) -> int:
            if key not in own:
                return otherwise
            low, high = bounds
            return max(low, min(high, int(GROUP_CONFIGS[key].parse(own[key]))))

        return replace(
            base,
            session_timeout_ms=value(
                "consumer.session.timeout.ms", base.session_timeout_ms, self._session
            ),
            heartbeat_interval_ms=value(
                "consumer.heartbeat.interval.ms", base.heartbeat_interval_ms, self._heartbeat
            ),
            assignment_interval_ms=value(
                "consumer.assignment.interval.ms", base.assignment_interval_ms, self._assignment
            ),
        )

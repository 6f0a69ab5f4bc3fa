"""The settings of consumer groups: the broker's `group.consumer.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`, `ConsumerGroupMigrationPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from trimaran.broker.groups.heartbeating.settings import (
    RECONCILING_INTERVAL_MS_MIN,
    ConfiguredSettings,
    HeartbeatSettings,
    reconciling_interval_ms_min,
)
from trimaran.node.config.consumer_group_keys import ASSIGNOR_NAMES
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.image import ConfigsImage

# The maximum length of an id chosen by a member: it is in the keys of four records, and a batch has the targets of many
# members.
MEMBER_ID_CHARACTERS_MAX = 1_000

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
class ConsumerGroupSettings(HeartbeatSettings):
    """The current settings of one consumer group."""

    reconciling_interval_ms_min: int = RECONCILING_INTERVAL_MS_MIN
    assignors: tuple[str, ...] = ("uniform", "range")
    members_max: int = 0x7FFFFFFF
    classic_members_max: int = 0x7FFFFFFF
    migration: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = 600_000


def configured(
    config: ServerConfig, configs: Callable[[], ConfigsImage]
) -> ConfiguredSettings[ConsumerGroupSettings]:
    """Returns the current settings by group id."""
    base = ConsumerGroupSettings(
        session_timeout_ms=config["group.consumer.session.timeout.ms"],
        heartbeat_interval_ms=config["group.consumer.heartbeat.interval.ms"],
        reconciling_interval_ms_min=reconciling_interval_ms_min("consumer", config),
        assignors=tuple(
            dict.fromkeys(ASSIGNOR_NAMES[name] for name in config["group.consumer.assignors"])
        ),
        members_max=config["group.consumer.max.size"],
        classic_members_max=config["group.max.size"],
        migration=MigrationPolicy(config["group.consumer.migration.policy"].lower()),
        regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
    )
    return ConfiguredSettings("consumer", base, config, configs)

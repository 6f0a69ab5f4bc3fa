"""The settings of share groups: the broker's `group.share.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from trimaran.broker.groups.heartbeating.settings import (
    RECONCILING_INTERVAL_MS_MIN,
    ConfiguredSettings,
    HeartbeatSettings,
    reconciling_interval_ms_min,
)
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.share_group_keys import SHARE_ASSIGNOR_NAMES
from trimaran.quorum.metadata.image import ConfigsImage

# The maximum length of a member id, as in Kafka: that of a UUID as text.
MEMBER_ID_CHARACTERS_MAX = 36


@dataclass(frozen=True, slots=True)
class ShareGroupSettings(HeartbeatSettings):
    """The current settings of one share group."""

    # The minimum interval of heartbeats while a member waits for partitions.
    waiting_interval_ms_min: int = RECONCILING_INTERVAL_MS_MIN
    assignor: str = "simple"
    members_max: int = 200
    # The time after which an initialization of share partitions is repeated.
    initialize_retry_ms: int = 30_000


def configured(
    config: ServerConfig, configs: Callable[[], ConfigsImage]
) -> ConfiguredSettings[ShareGroupSettings]:
    """Returns the current settings by group id."""
    base = ShareGroupSettings(
        session_timeout_ms=config["group.share.session.timeout.ms"],
        heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
        waiting_interval_ms_min=reconciling_interval_ms_min("share", config),
        assignor=SHARE_ASSIGNOR_NAMES[config["group.share.assignors"][0]],
        members_max=config["group.share.max.size"],
        initialize_retry_ms=max(
            config["group.share.initialize.retry.interval.ms"], config["offsets.commit.timeout.ms"]
        ),
    )
    return ConfiguredSettings("share", base, config, configs)

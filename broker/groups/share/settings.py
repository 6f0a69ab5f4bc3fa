"""The settings of share groups: the broker's `group.share.*`, and the configs of the group itself.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from trimaran.broker.groups.consumer.settings import RECONCILING_INTERVAL_MS_MIN
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.share_group_keys import SHARE_ASSIGNOR_NAMES
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage
from trimaran.quorum.serving.node_configs import NodeConfigs

# The maximum length of a member id, as in Kafka: that of a UUID as text.
MEMBER_ID_CHARACTERS_MAX = 36


@dataclass(frozen=True, slots=True)
class ShareGroupSettings:
    """The current settings of one group; the defaults are those of Kafka 4.4."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    # The minimum interval of heartbeats while a member waits for partitions.
    waiting_interval_ms_min: int = RECONCILING_INTERVAL_MS_MIN
    assignment_interval_ms: int = 1_000
    assignor: str = "simple"
    members_max: int = 200
    # The time after which an initialization of share partitions is repeated.
    initialize_retry_ms: int = 30_000


# If set explicitly, it also applies while members wait for partitions; its default of 5 s does not.
LEAST_HEARTBEAT_INTERVAL = "group.share.min.heartbeat.interval.ms"


class ConfiguredShareGroups:
    """The current settings by group id; altered values apply from the next heartbeat on."""

    def __init__(self, config: ServerConfig, configs: Callable[[], ConfigsImage]) -> None:
        self._configs = configs
        self._now = NodeConfigs(config, configs)
        self._base = ShareGroupSettings(
            session_timeout_ms=config["group.share.session.timeout.ms"],
            heartbeat_interval_ms=config["group.share.heartbeat.interval.ms"],
            waiting_interval_ms_min=max(
                RECONCILING_INTERVAL_MS_MIN, config.explicit.get(LEAST_HEARTBEAT_INTERVAL, 0)
            ),
            assignor=SHARE_ASSIGNOR_NAMES[config["group.share.assignors"][0]],
            members_max=config["group.share.max.size"],
            initialize_retry_ms=max(
                config["group.share.initialize.retry.interval.ms"],
                config["offsets.commit.timeout.ms"],
            ),
        )
        self._session = (
            config["group.share.min.session.timeout.ms"],
            config["group.share.max.session.timeout.ms"],
        )
        self._heartbeat = (
            config[LEAST_HEARTBEAT_INTERVAL],
            config["group.share.max.heartbeat.interval.ms"],
        )
        self._assignment = (
            config["group.share.min.assignment.interval.ms"],
            config["group.share.max.assignment.interval.ms"],
        )
        # The settings of groups without their own configs, cached for one state of the configs.
        self._known: tuple[ConfigsImage, ShareGroupSettings] | None = None

    def of(self, group_id: str) -> ShareGroupSettings:
        configs = self._configs()
        if self._known is None or self._known[0] is not configs:
            interval = self._now.now("group.share.assignment.interval.ms")
            self._known = configs, replace(self._base, assignment_interval_ms=interval)
        base = self._known[1]
        own = configs.of(GROUP_RESOURCE, group_id)
        return self._with_own(base, own) if own else base

    def _with_own(self, base: ShareGroupSettings, own: Mapping[str, str]) -> ShareGroupSettings:
        def value(key: str, otherwise: int, bounds: tuple[int, int]) -> int:
            if key not in own:
                return otherwise
            low, high = bounds
            return max(low, min(high, int(GROUP_CONFIGS[key].parse(own[key]))))

        return replace(
            base,
            session_timeout_ms=value(
                "share.session.timeout.ms", base.session_timeout_ms, self._session
            ),
            heartbeat_interval_ms=value(
                "share.heartbeat.interval.ms", base.heartbeat_interval_ms, self._heartbeat
            ),
            assignment_interval_ms=value(
                "share.assignment.interval.ms", base.assignment_interval_ms, self._assignment
            ),
        )

"""The common part of settings: the broker's keys, and the configs of a group within the broker's bounds.

Source: Kafka's `GroupCoordinatorConfig`, `GroupConfig`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.metadata.image import GROUP_RESOURCE, ConfigsImage
from trimaran.quorum.serving.node_configs import NodeConfigs

# The maximum size of one member's subscription (topics and pattern). It must fit into a record of a megabyte, together
# with the rest of the member.
SUBSCRIPTION_BYTES_MAX = 512 << 10

# While a group reconciles, its members must send heartbeats more often, since each step would otherwise take a
# heartbeat interval of seconds. The first limit is the minimum interval, the second the maximum rate of all members
# together.
RECONCILING_INTERVAL_MS_MIN = 500
RECONCILING_HEARTBEATS_PER_SECOND_MAX = 500


@dataclass(frozen=True, slots=True)
class HeartbeatSettings:
    """The current settings of one group; the defaults are those of Kafka 4.4."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


S = TypeVar("S", bound=HeartbeatSettings)


class OwnConfig(NamedTuple):
    """The config of a group for one field of its settings, and the bounds of its value."""

    key: str
    low: int
    high: int


class ConfiguredSettings(Generic[S]):
    """The current settings by group id; altered values apply from the next heartbeat on."""

    def __init__(
        self,
        kind: str,
        base: S,
        config: ServerConfig,
        configs: Callable[[], ConfigsImage],
        more: Mapping[str, OwnConfig] | None = None,
    ) -> None:
        """Begins with the broker's settings `base`. A group of the `kind`, such as "consumer", may change the session
        timeout and the two intervals, in the bounds of the broker's keys, and the fields in `more`.
        """
        self._configs = configs
        self._now = NodeConfigs(config, configs)
        self._base = base
        self._kind = kind
        self._own = {**_own(kind, config), **(more or {})}
        # The settings of groups without their own configs, cached until the configs change.
        self._known: tuple[ConfigsImage, S] | None = None

    def of(self, group_id: str) -> S:
        configs = self._configs()
        if self._known is None or self._known[0] is not configs:
            interval = self._now.now(f"group.{self._kind}.assignment.interval.ms")
            self._known = configs, replace(self._base, assignment_interval_ms=interval)
        base = self._known[1]
        own = configs.of(GROUP_RESOURCE, group_id)
        return replace(base, **self._changes(own)) if own else base

    def _changes(self, own: Mapping[str, str]) -> dict[str, Any]:
        """Returns the fields that the configs of a group change."""
        return {
            field: max(low, min(high, int(GROUP_CONFIGS[key].parse(own[key]))))
            for field, (key, low, high) in self._own.items()
            if key in own
        }


def _own(kind: str, config: ServerConfig) -> dict[str, OwnConfig]:
    """Returns the configs of each group of the kind, by the field of its settings."""
    return {
        "session_timeout_ms": OwnConfig(
            f"{kind}.session.timeout.ms",
            config[f"group.{kind}.min.session.timeout.ms"],
            config[f"group.{kind}.max.session.timeout.ms"],
        ),
        "heartbeat_interval_ms": OwnConfig(
            f"{kind}.heartbeat.interval.ms",
            config[f"group.{kind}.min.heartbeat.interval.ms"],
            config[f"group.{kind}.max.heartbeat.interval.ms"],
        ),
        "assignment_interval_ms": OwnConfig(
            f"{kind}.assignment.interval.ms",
            config[f"group.{kind}.min.assignment.interval.ms"],
            config[f"group.{kind}.max.assignment.interval.ms"],
        ),
    }


def reconciling_interval_ms_min(kind: str, config: ServerConfig) -> int:
    """Returns the minimum interval of heartbeats while a group reconciles. The broker's lower bound also applies then
    if it is set explicitly; its default of 5 s does not.
    """
    bound: int = config.explicit.get(f"group.{kind}.min.heartbeat.interval.ms", 0)
    return max(RECONCILING_INTERVAL_MS_MIN, bound)


def reconciling_interval_ms(members: int, usual_ms: int, least_ms: int) -> int:
    """Returns the interval of heartbeats while a group with this number of members reconciles: between `least_ms` and
    `usual_ms`.
    """
    for_all = members * 1000 // RECONCILING_HEARTBEATS_PER_SECOND_MAX
    return min(usual_ms, max(least_ms, for_all))

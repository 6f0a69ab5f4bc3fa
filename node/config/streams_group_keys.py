"""Keys of streams groups (KIP-1071) for the group coordinator.

Source: Kafka's `GroupCoordinatorConfig`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trimaran.node.config.config_def import ConfigError, ConfigKey
from trimaran.node.config.key_rows import rows

STREAMS_ASSIGNOR_NAMES = {
    "sticky": "sticky",
    "org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor": "sticky",
}
"""The server's assignors, also under the names of Kafka's classes."""


def _assignors(names: list[str]) -> str | None:
    if len(names) == 1 and names[0] in STREAMS_ASSIGNOR_NAMES:
        return None
    return f"the assignor is sticky, and own ones cannot be loaded: {', '.join(names)}"


_ACTING = rows(
    """
group.streams.assignment.interval.ms | int 0.. | 1000 | medium dynamic
    Minimum time between two assignments of a streams group.
group.streams.acceptable.recovery.lag | long 0.. | 10000 | internal
    Offsets by which a client may be behind and still get an active task.
group.streams.assignors | list | sticky | medium
    Assignors of streams groups; the first is the default.
group.streams.heartbeat.interval.ms | int 1.. | 5000 | medium
    Time between two heartbeats of a streams group's member.
group.streams.initial.rebalance.delay.ms | int 0.. | 3000 | medium
    Time a new streams group waits for more members.
group.streams.max.assignment.interval.ms | int 0.. | 15000 | medium
    Upper bound of a group's streams.assignment.interval.ms.
group.streams.max.heartbeat.interval.ms | int 1.. | 15000 | medium
    Upper bound of a group's streams.heartbeat.interval.ms.
group.streams.max.session.timeout.ms | int 1.. | 60000 | medium
    Upper bound of a group's streams.session.timeout.ms.
group.streams.max.size | int 1.. | 2147483647 | medium
    Maximum number of members of a streams group.
group.streams.max.standby.replicas | int 0.. | 2 | medium
    Upper bound of a group's streams.num.standby.replicas.
group.streams.min.assignment.interval.ms | int 0.. | 0 | medium
    Lower bound of a group's streams.assignment.interval.ms.
group.streams.min.heartbeat.interval.ms | int 1.. | 5000 | medium
    Lower bound of a group's streams.heartbeat.interval.ms.
group.streams.min.session.timeout.ms | int 1.. | 45000 | medium
    Lower bound of a group's streams.session.timeout.ms.
group.streams.min.task.offset.interval.ms | int 1.. | 15000 | internal
    Lower bound of a group's streams.task.offset.interval.ms.
group.streams.num.standby.replicas | int 0.. | 0 | medium
    Standby replicas of each task of a streams group.
group.streams.rack.aware.assignment.tags | list | | low
    Tags of clients over which standby replicas are distributed.
group.streams.session.timeout.ms | int 1.. | 45000 | medium
    Time without a heartbeat after which a member leaves its streams group.
group.streams.task.offset.interval.ms | int 1.. | 60000 | internal
    Time between two reports of the offsets of warm-up tasks.
""",
    no_effect="",
)
_WITHOUT_WARMUPS = rows(
    """
group.streams.max.warmup.replicas | int 0.. | 20 | internal
    Upper bound of a group's streams.num.warmup.replicas.
group.streams.num.warmup.replicas | int 0.. | 2 | internal
    Warm-up replicas of a streams group.
""",
    no_effect="no assignor gives warm-up tasks, as in Kafka 4.4",
)
STREAMS_GROUPS: tuple[ConfigKey, ...] = (
    *(
        replace(key, check=_assignors) if key.name == "group.streams.assignors" else key
        for key in _ACTING
    ),
    *_WITHOUT_WARMUPS,
)


def check_streams_groups(config: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Raises ConfigError if a value is outside the bounds of other keys."""
    standbys, most = "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
    if config[standbys] > config[most]:
        raise _outside(standbys, f"at most {most}={config[most]}", config, origins)
    interval = "group.streams.task.offset.interval.ms"
    least = "group.streams.min.task.offset.interval.ms"
    if config[interval] < config[least]:
        raise _outside(interval, f"at least {least}={config[least]}", config, origins)


def _outside(
    key: str, bound: str, config: Mapping[str, Any], origins: Mapping[str, str]
) -> ConfigError:
    return ConfigError(
        key,
        config[key],
        f"it must be {bound}",
        origin=origins.get(key, ""),
        fix="correct one of the two",
    )

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


_TAGS = "group.streams.rack.aware.assignment.tags"
# A key, its bound, and whether that is the largest value or the least.
_BOUNDS = (
    ("num.standby.replicas", "max.standby.replicas", True),
    ("task.offset.interval.ms", "min.task.offset.interval.ms", False),
    ("num.warmup.replicas", "max.warmup.replicas", True),
)


def check_streams_groups(
    config: Mapping[str, Any], origins: Mapping[str, str], texts: Mapping[str, str]
) -> None:
    """Raises ConfigError if a value is outside the bounds of other keys, or a tag is named twice in its text."""
    for name, bound, is_most in _BOUNDS:
        key, other = f"group.streams.{name}", f"group.streams.{bound}"
        if config[key] > config[other] if is_most else config[key] < config[other]:
            raise ConfigError(
                key,
                config[key],
                f"it must be at {'most' if is_most else 'least'} {other}={config[other]}",
                origin=origins.get(key, ""),
                fix="correct one of the two",
                answer=f"{key} must be {'less' if is_most else 'greater'} than or equal to {other}",
            )
    text = texts.get(_TAGS, "")
    if has_duplicate_tags(text):
        why = "must not contain duplicate tag keys."
        raise ConfigError(
            _TAGS,
            text,
            f"it {why}",
            origin=origins.get(_TAGS, ""),
            fix="name each tag once",
            answer=f"{_TAGS} {why}",
        )


def has_duplicate_tags(text: str) -> bool:
    """Returns whether a list of tags, in its original form, names one twice."""
    tags = [tag.strip() for tag in text.split(",")]
    return bool(text.strip()) and len({*tags}) < len(tags)

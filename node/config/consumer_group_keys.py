"""Keys of consumer groups (KIP-848), and the relations between their values.

Source: Kafka's `GroupCoordinatorConfig`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from trimaran.node.config.config_def import Check, ConfigError, ConfigKey
from trimaran.node.config.key_rows import rows

ASSIGNOR_NAMES = {
    "uniform": "uniform",
    "range": "range",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""The server's assignors, also under the names of Kafka's classes."""

MIGRATION_POLICIES = ("disabled", "upgrade", "downgrade", "bidirectional")
GROUP_PROTOCOLS = ("classic", "consumer", "streams", "share")


def _assignors(names: list[str]) -> str | None:
    unknown = [name for name in names if name not in ASSIGNOR_NAMES]
    if unknown or not names:
        named = ", ".join(unknown) or "none is named"
        return f"assignors are uniform and range, and own ones cannot be loaded: {named}"
    return None


def _policy(name: str) -> str | None:
    if name.lower() in MIGRATION_POLICIES:
        return None
    return "String must be one of: " + ", ".join(MIGRATION_POLICIES)


def _protocols(names: list[str]) -> str | None:
    unknown = [name for name in names if name not in GROUP_PROTOCOLS]
    if unknown:
        return f"protocols of groups are {', '.join(GROUP_PROTOCOLS)}, not {', '.join(unknown)}"
    return None if "classic" in names else "classic cannot be left out"


_CHECKS: dict[str, Check] = {
    "group.consumer.assignors": _assignors,
    "group.consumer.migration.policy": _policy,
    "group.coordinator.rebalance.protocols": _protocols,
}
_KEYS = rows(
    """
group.consumer.assignment.interval.ms | int 0.. | 1000 | medium dynamic
    Minimum time between two assignments of a consumer group.
group.consumer.assignors | list | uniform,range | medium
    Assignors of consumer groups; the first is the default.
group.consumer.heartbeat.interval.ms | int 1.. | 5000 | medium
    Time between two heartbeats of a consumer group's member.
group.consumer.max.assignment.interval.ms | int 0.. | 15000 | medium
    Upper bound of a group's consumer.assignment.interval.ms.
group.consumer.max.heartbeat.interval.ms | int 1.. | 15000 | medium
    Upper bound of a group's consumer.heartbeat.interval.ms.
group.consumer.max.session.timeout.ms | int 1.. | 60000 | medium
    Upper bound of a group's consumer.session.timeout.ms.
group.consumer.max.size | int 1.. | 2147483647 | medium
    Maximum number of members of a consumer group.
group.consumer.migration.policy | string | bidirectional | medium
    Which way groups may move between the classic and the consumer protocol.
group.consumer.min.assignment.interval.ms | int 0.. | 0 | medium
    Lower bound of a group's consumer.assignment.interval.ms.
group.consumer.min.heartbeat.interval.ms | int 1.. | 5000 | medium
    Lower bound of a group's consumer.heartbeat.interval.ms.
group.consumer.min.session.timeout.ms | int 1.. | 45000 | medium
    Lower bound of a group's consumer.session.timeout.ms.
group.consumer.regex.refresh.interval.ms | int 10000.. | 600000 | internal
    Time between two searches for topics that match a group's regular expressions.
group.consumer.session.timeout.ms | int 1.. | 45000 | medium
    Time without a heartbeat after which a member leaves its consumer group.
group.coordinator.rebalance.protocols | list | classic,consumer,streams | medium
    Group protocols that the coordinator speaks.
""",
    no_effect="",
)
CONSUMER_GROUPS: tuple[ConfigKey, ...] = tuple(
    replace(key, check=_CHECKS.get(key.name, key.check)) for key in _KEYS
)


def check_groups(kind: str, config: Mapping[str, Any], origins: Mapping[str, str]) -> None:
    """Checks the keys of a kind of group, such as "consumer", in Kafka's order. Raises ConfigError if a value is
    outside the bounds of other keys, or a session is not longer than a heartbeat.
    """
    check_bounded(kind, ("heartbeat.interval.ms", "session.timeout.ms"), config, origins)
    session, beat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
    if config[session] <= config[beat]:
        raise ConfigError(
            session,
            config[session],
            f"it must be longer than {beat}={config[beat]}",
            origin=origins.get(session, ""),
            fix="make the session several heartbeats long",
            answer=f"{beat} must be less than {session}",
        )
    check_bounded(kind, ("assignment.interval.ms",), config, origins)


# Kafka's message for a value above its bound; the keys of share deliveries have another one.
ABOVE = "{key} must be less than or equal to {high}"


def check_bounded(
    kind: str,
    names: Iterable[str],
    config: Mapping[str, Any],
    origins: Mapping[str, str],
    above: str = ABOVE,
) -> None:
    """Raises ConfigError if a key of a kind of group is outside its bounds, which are keys, too: `group.KIND.NAME` must
    be between `group.KIND.min.NAME` and `group.KIND.max.NAME`.
    """
    for name in names:
        key, low, high = (f"group.{kind}.{bound}{name}" for bound in ("", "min.", "max."))
        if not config[low] <= config[key] <= config[high]:
            raise ConfigError(
                key,
                config[key],
                f"it must lie between {low}={config[low]} and {high}={config[high]}",
                origin=origins.get(key, ""),
                fix="correct one of the three",
                answer=_bound_exceeded(key, low, high, config, above),
            )


def _bound_exceeded(key: str, low: str, high: str, config: Mapping[str, Any], above: str) -> str:
    """Returns the first requirement that is not met, in Kafka's words."""
    if config[high] < config[low]:
        return f"{high} must be greater than or equal to {low}"
    if config[key] < config[low]:
        return f"{key} must be greater than or equal to {low}"
    return above.format(key=key, high=high)

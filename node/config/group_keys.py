"""The configs of a group: names, defaults and bounds of Apache Kafka 4.3.

Source: Kafka's `GroupConfig`, `GroupCoordinatorConfig`, `ShareGroupConfig`. The bounds that a broker's file can change
in Kafka (`group.consumer.min.session.timeout.ms`, …) have their default values here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from trimaran.node.config.config_def import ConfigDef, ConfigError, ConfigKey, at_least, one_of
from trimaran.node.config.server_keys import SERVER_CONFIGS

_DURATION = re.compile(
    r"P(?=.)([+-]?\d+D)?(T(?=.)([+-]?\d+H)?([+-]?\d+M)?([+-]?\d+([.,]\d{0,9})?S)?)?", re.IGNORECASE
)


def _offset_reset(value: str) -> str | None:
    """Checks a reset policy: KIP-932, and the durations of KIP-1106."""
    kind, colon, duration = value.partition(":")
    if value in ("earliest", "latest"):
        return None
    if kind == "by_duration" and colon and _DURATION.fullmatch(duration):
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either "
        "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


KINDS = ("consumer", "share", "streams")


def _of_every_kind(kind: str) -> tuple[ConfigKey, ...]:
    """Returns the keys for sessions, heartbeats and assignments, which all kinds of groups have."""
    return (
        ConfigKey(
            f"{kind}.session.timeout.ms",
            "int",
            45_000,
            "Time without a heartbeat after which a member leaves the group.",
            at_least(1),
        ),
        ConfigKey(
            f"{kind}.heartbeat.interval.ms",
            "int",
            5_000,
            "Time between two heartbeats of a member.",
            at_least(1),
        ),
        ConfigKey(
            f"{kind}.assignment.interval.ms",
            "int",
            1_000,
            "Minimum time between two assignments.",
            at_least(0),
        ),
    )


_KEYS = (
    *(key for kind in KINDS for key in _of_every_kind(kind)),
    ConfigKey(
        "share.record.lock.duration.ms",
        "int",
        30_000,
        "Time a consumer has to acknowledge a record.",
        at_least(1000),
    ),
    ConfigKey(
        "share.delivery.count.limit",
        "int",
        5,
        "Deliveries of a record before it is given up.",
        at_least(2),
    ),
    ConfigKey(
        "share.partition.max.record.locks",
        "int",
        2_000,
        "Maximum number of records of a partition that are delivered and not acknowledged.",
        at_least(100),
    ),
    ConfigKey(
        "share.auto.offset.reset",
        "string",
        "latest",
        "Offset at which a new share group begins.",
        _offset_reset,
    ),
    ConfigKey(
        "share.isolation.level",
        "string",
        "read_uncommitted",
        "Whether a share group reads records of open and aborted transactions.",
        one_of("read_committed", "read_uncommitted"),
    ),
    ConfigKey(
        "share.renew.acknowledge.enable",
        "boolean",
        True,
        "Whether consumers may ask for more time to acknowledge a record.",
    ),
    ConfigKey(
        "streams.num.standby.replicas",
        "int",
        0,
        "Standby replicas of each task of a streams group.",
        at_least(0),
    ),
    ConfigKey(
        "streams.initial.rebalance.delay.ms",
        "int",
        3_000,
        "Time a new streams group waits for more members.",
        at_least(0),
    ),
)


def _with_effect_of_kind(key: ConfigKey) -> ConfigKey:
    """Returns the config of a group with the reason why the broker's configs of this kind have no effect, if any."""
    kind = key.name.partition(".")[0]
    return replace(key, no_effect=SERVER_CONFIGS[f"group.{kind}.session.timeout.ms"].no_effect)


GROUP_CONFIGS = ConfigDef(map(_with_effect_of_kind, _KEYS))

# These keys exist only for groups; all others have a default in a broker's file, with the prefix `group.`.
_WITHOUT_SYNONYM = {
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
}


def broker_synonym(key: str) -> str:
    """Returns the broker config with the default of a group config, else the config itself."""
    return key if key in _WITHOUT_SYNONYM else f"group.{key}"


NOTHING: Mapping[str, Any] = {}
# Broker configs bound these keys from below and above; streams.num.standby.replicas only from above.
_BOUNDED = (
    *(
        f"{kind}.{what}"
        for kind in KINDS
        for what in ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
    ),
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "streams.num.standby.replicas",
)


def check_group_configs(configs: Mapping[str, str], server: Mapping[str, Any] = NOTHING) -> None:
    """Raises ConfigError for an unknown key, an invalid value, a value outside the bounds in `server`, or values that
    contradict each other. `server` has values of broker configs; defaults apply to the others.
    """
    for key, text in configs.items():
        if key not in GROUP_CONFIGS:
            raise ConfigError(
                key, text, "unknown config of a group", answer=f"Unknown group config name: {key}"
            )

    def of_server(name: str) -> Any:
        return server[name] if name in server else SERVER_CONFIGS[name].default

    values = {
        key.name: of_server(synonym)
        if (synonym := broker_synonym(key.name)) in SERVER_CONFIGS
        else key.default
        for key in GROUP_CONFIGS.values()
    }
    values |= {key: GROUP_CONFIGS[key].parse(text) for key, text in configs.items()}
    for key in _BOUNDED:
        low_key, high_key = _bounds_of(key)
        if low_key in SERVER_CONFIGS and values[key] < of_server(low_key):
            raise _out_of_bounds(key, values[key], f"must be greater than or equal to {low_key}")
        if values[key] > of_server(high_key):
            raise _out_of_bounds(key, values[key], f"must be less than or equal to {high_key}")
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            raise _out_of_bounds(session, values[session], f"must be greater than {heartbeat}")


def _bounds_of(key: str) -> tuple[str, str]:
    """Returns the bounds' keys: `group.share.min.delivery.count.limit` and `group.share.max.…` for
    `share.delivery.count.limit`.
    """
    kind, _, rest = key.partition(".")
    rest = rest.replace("num.standby", "standby")
    return f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"


def _out_of_bounds(key: str, value: object, why: str) -> ConfigError:
    return ConfigError(key, value, why, answer=f"{key} {why}")

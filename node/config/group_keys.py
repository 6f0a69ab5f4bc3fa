"""The configs of a group: names, defaults and bounds of Apache Kafka 4.4.

Source: Kafka's `GroupConfig`, `GroupCoordinatorConfig`, `ShareGroupConfig`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from trimaran.node.config.config_def import ConfigDef, ConfigError, ConfigKey, at_least, one_of
from trimaran.node.config.consumer_group_keys import GROUP_PROTOCOLS
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.config.streams_group_keys import has_duplicate_tags

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


KINDS = tuple(sorted(set(GROUP_PROTOCOLS) - {"classic"}))
"""The kinds of groups that have configs."""
_TAGS = "streams.rack.aware.assignment.tags"
_DEAD_LETTERS = "errors.deadletterqueue.topic.name"
# The broker config about dead-letter queues.
_DEAD_LETTER_TOPICS = "errors.deadletterqueue.auto.create.topics.enable"


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
        ConfigKey(
            f"{kind}.assignor.offload.enable",
            "boolean",
            True,
            "Whether assignments are computed in the background.",
            internal=True,
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
        "Whether consumers may request more time to acknowledge a record.",
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
    ConfigKey(
        "streams.acceptable.recovery.lag",
        "long",
        10_000,
        "Offsets by which a client may be behind and still get an active task.",
        at_least(0),
        internal=True,
    ),
    ConfigKey(
        "streams.assignor.name",
        "string",
        None,
        "Assignor of a streams group; null for the first one of the broker.",
    ),
    ConfigKey(
        "streams.num.warmup.replicas",
        "int",
        2,
        "Warm-up replicas of a streams group.",
        at_least(0),
        internal=True,
    ),
    ConfigKey(
        _TAGS,
        "list",
        [],
        "Tags of clients over which standby replicas are distributed.",
        importance="low",
    ),
    ConfigKey(
        "streams.task.offset.interval.ms",
        "int",
        60_000,
        "Time between two reports of the offsets of warm-up tasks.",
        at_least(1),
        internal=True,
    ),
    ConfigKey(
        _DEAD_LETTERS,
        "string",
        "",
        "Topic for records that a share group gives up; empty for none.",
    ),
    ConfigKey(
        "errors.deadletterqueue.copy.record.enable",
        "boolean",
        False,
        "Whether that topic gets a copy of the record, or only the cause.",
    ),
)


def _with_effect_of_broker(key: ConfigKey) -> ConfigKey:
    """Returns the config of a group with the reason why the broker's config of this name, or those of its kind, have
    no effect, if any.
    """
    server = SERVER_CONFIGS.get(f"group.{key.name}")
    if server is None:
        kind = key.name.partition(".")[0]
        like = f"group.{kind}.session.timeout.ms" if kind in KINDS else _DEAD_LETTER_TOPICS
        server = SERVER_CONFIGS[like]
    return replace(key, no_effect=server.no_effect)


GROUP_CONFIGS = ConfigDef(map(_with_effect_of_broker, _KEYS))

# These keys exist only for groups; all others have a default in a broker's file, with the prefix `group.`.
_WITHOUT_SYNONYM = {
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
    _DEAD_LETTERS,
    "errors.deadletterqueue.copy.record.enable",
}
_ASSIGNOR = "streams.assignor.name"
_ASSIGNORS = "group.streams.assignors"


def broker_synonym(key: str) -> str:
    """Returns the broker config with the default of a group config, else the config itself."""
    if key == _ASSIGNOR:
        return _ASSIGNORS
    return key if key in _WITHOUT_SYNONYM else f"group.{key}"


NOTHING: Mapping[str, Any] = {}
# Broker configs bound these keys: from below, from above, or both.
_BOUNDED = (
    "consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms",
    "consumer.assignment.interval.ms",
    "share.heartbeat.interval.ms",
    "share.session.timeout.ms",
    "share.record.lock.duration.ms",
    "share.delivery.count.limit",
    "share.partition.max.record.locks",
    "share.assignment.interval.ms",
    "streams.heartbeat.interval.ms",
    "streams.session.timeout.ms",
    "streams.num.standby.replicas",
    "streams.assignment.interval.ms",
    "streams.task.offset.interval.ms",
    "streams.num.warmup.replicas",
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
    _check_tags(configs.get(_TAGS, ""))

    def of_server(name: str) -> Any:
        return server[name] if name in server else SERVER_CONFIGS[name].default

    values = {key: GROUP_CONFIGS[key].parse(text) for key, text in configs.items()}
    for key in _BOUNDED:
        if key in values:
            _check_bounds(key, values[key], of_server)
    if _ASSIGNOR in values and values[_ASSIGNOR] not in (known := of_server(_ASSIGNORS)):
        name, names = values[_ASSIGNOR], ", ".join(known)
        why = f"'{name}' is not a registered task assignor. Registered assignors are: [{names}]."
        raise _refused(_ASSIGNOR, name, why)
    for kind in KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session in values or heartbeat in values:
            of_session, of_heartbeat = (
                values.get(key, of_server(broker_synonym(key))) for key in (session, heartbeat)
            )
            if of_session <= of_heartbeat:
                raise _refused(session, of_session, f"must be greater than {heartbeat}")
    if (topic := values.get(_DEAD_LETTERS, "")).startswith("__"):
        why = "DLQ topic name must not start with '__'"
        raise ConfigError(_DEAD_LETTERS, topic, why, answer=f"{_DEAD_LETTERS}: {why}")


def _check_tags(text: str) -> None:
    """Refuses repeated tags, which a list would drop."""
    if has_duplicate_tags(text):
        raise _refused(_TAGS, text, "must not contain duplicate tag keys.")


def _check_bounds(key: str, value: int, of_server: Callable[[str], Any]) -> None:
    """Compares with `group.share.min.delivery.count.limit` and `group.share.max.…` for `share.delivery.count.limit`, if
    such keys exist.
    """
    kind, _, rest = key.partition(".")
    rest = rest.removeprefix("num.")
    names = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}"
    low, high = (of_server(name) if name in SERVER_CONFIGS else None for name in names)
    if (low is None or low <= value) and (high is None or value <= high):
        return
    if low is None:
        why = f"must be less than or equal to {high}"
    elif high is None:
        why = f"must be greater than or equal to {low}"
    else:
        why = f"must be in the range {low} to {high} inclusive."
    raise _refused(key, value, why)


def _refused(key: str, value: Any, why: str) -> ConfigError:
    return ConfigError(key, value, why, answer=f"{key} {why}")

"""Checks that altered broker configs are consistent: each value may be valid by itself, but inconsistent with the
others.

Source: `DynamicThreadPool`, `DynamicLogConfig`, `CleanerConfig` and `GroupCoordinatorConfig` of Kafka, and
`KafkaConfig.validateValues`. See `trimaran.node.config.dynamic_keys` for the bounds of single keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.group_keys import KINDS

# Kafka changes the size of a thread pool by at most a factor of two. The pools themselves have no effect here.
_POOLS = frozenset(
    {
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.follower.thread.pool.size",
        "remote.log.reader.threads",
    }
)
_CLEANERS, _BUFFER = "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
_BUFFER_BYTES_MIN = 1 << 20
_PER_IP, _OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"
_LIKE_ALL, _NO_BOUND = -2, -1

Value = Callable[[str], Any]
NOWHERE: Mapping[str, str] = {}


def check_together(changes: Mapping[str, str | None], before: Value, after: Value) -> None:
    """Checks configs that are set or deleted (None); each is valid by itself. `before` and `after` return the effective
    value of a key.

    The deletion of a pool's size restores the value in the broker's file, which a controller does not know.

    Raises:
        ConfigError: the values are inconsistent; the message is Kafka's.
    """
    given = {name for name, text in changes.items() if text is not None}
    for name in sorted(given & _POOLS):
        _check_pool(name, after(name), before(name))
    if _CLEANERS in given:
        _check_cleaners(after(_CLEANERS), before(_CLEANERS), after(_BUFFER))
    for kind in KINDS:
        key = f"group.{kind}.assignment.interval.ms"
        if key in given:
            _check_between(key, after, kind)
    if _PER_IP in changes or _OVERRIDES in changes:
        check_per_ip(after)
    for unit in ("ms", "bytes"):
        retention = {f"log.local.retention.{unit}", f"log.retention.{unit}"}
        if retention & changes.keys():
            _check_local_retention(unit, after)
        if {*retention, f"log.remote.copy.lag.{unit}"} & changes.keys():
            _check_copy_lag(unit, after)


def _check_pool(name: str, value: int, present: int) -> None:
    why = None
    if value < present // 2:
        why = f"value should be at least half the current value {present}"
    if value > present * 2:
        why = f"value should not be greater than double the current value {present}"
    if why is not None:
        message = f"Dynamic thread count update validation failed for {name}={value}, {why}"
        raise ConfigError(name, value, why, answer=message)


def _check_cleaners(value: int, present: int, buffer_bytes: int) -> None:
    why = None
    if value < 1:
        why = "Log cleaner threads should be at least 1"
    elif buffer_bytes // value < _BUFFER_BYTES_MIN:
        why = f"{_BUFFER} must be at least 1MB per cleaner thread."
    elif value < present // 2:
        why = f"Log cleaner threads cannot be reduced to less than half the current value {present}"
    elif value > present * 2:
        why = f"Log cleaner threads cannot be increased to more than double the current value {present}"
    if why is not None:
        raise ConfigError(_CLEANERS, value, why, answer=why)


def _check_between(key: str, after: Value, kind: str) -> None:
    low, high = (f"group.{kind}.{end}.assignment.interval.ms" for end in ("min", "max"))
    if after(key) < after(low):
        why = f"must be greater than or equal to {low}"
        raise ConfigError(key, after(key), why, answer=f"{key} {why}")
    if after(key) > after(high):
        why = f"must be less than or equal to {high}"
        raise ConfigError(key, after(key), why, answer=f"{key} {why}")


def check_per_ip(value: Value, origins: Mapping[str, str] = NOWHERE) -> None:
    """Raises ConfigError if no address at all could connect. `origins`: the line of the file, by key."""
    if not value(_PER_IP) and not value(_OVERRIDES):
        why = f"can be set to zero only if {_OVERRIDES} property is set."
        raise ConfigError(
            _PER_IP,
            0,
            why,
            origin=origins.get(_PER_IP, ""),
            fix=f"set {_OVERRIDES}, or more than 0",
            answer=f"requirement failed: {_PER_IP} {why}",
        )


def _check_local_retention(unit: str, after: Value) -> None:
    whole_key, local_key = f"log.retention.{unit}", f"log.local.retention.{unit}"
    whole, local = _retention(unit, after), after(local_key)
    if whole == _NO_BOUND or local == _LIKE_ALL:
        return
    if local == _NO_BOUND:
        why = f"Value must not be -1 as {whole_key} value is set as {whole}."
        raise ConfigError(local_key, local, why)
    if local > whole:
        why = f"Value must not be more than {whole_key} property value: {whole}"
        raise ConfigError(local_key, local, why)


def _check_copy_lag(unit: str, after: Value) -> None:
    local_key, lag_key = f"log.local.retention.{unit}", f"log.remote.copy.lag.{unit}"
    local, lag = after(local_key), after(lag_key)
    if local == _LIKE_ALL:
        local = _retention(unit, after)
    if lag > local >= 0:
        why = f"Value must not exceed {local_key} (effective value: {local})"
        raise ConfigError(lag_key, lag, why)


def _retention(unit: str, after: Value) -> int:
    """Returns the effective `log.retention.…`: of the times, the most precise of the three keys that are set."""
    if unit == "bytes":
        return int(after("log.retention.bytes"))
    for key, ms in (("ms", 1), ("minutes", 60_000), ("hours", 3_600_000)):
        found = after(f"log.retention.{key}")
        if found is not None:
            return int(found) * ms if found >= 0 else _NO_BOUND
    return _NO_BOUND

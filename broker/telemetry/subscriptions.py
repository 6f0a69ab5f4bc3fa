"""The metrics that a client should push: subscriptions are configs, and match clients by their properties.

Source: Kafka's `ClientMetricsConfigs`, `ClientMetricsInstanceMetadata`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from trimaran.node.config.client_metrics_keys import (
    CLIENT_METRICS_CONFIGS,
    Matches,
    client_patterns,
)
from trimaran.node.config.config_def import ConfigError

ALL_METRICS = "*"
# The maximum interval, even if a subscription has a longer one, as in Kafka.
INTERVAL_MS = 300_000
# Longer labels match no pattern.
_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription. `match` has patterns by parameter, all of which must match: an empty mapping matches every
    client, and None matches no client.
    """

    metrics: frozenset[str]
    interval_ms: int
    match: tuple[tuple[str, Matches], ...] | None

    def matches(self, client: Mapping[str, str]) -> bool:
        """Returns whether the subscription matches; `client` has the known texts by parameter."""
        return self.match is not None and all(
            name in client and len(client[name]) <= _CHARACTERS_MAX and matches(client[name])
            for name, matches in self.match
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """The metrics that one client should push, and the interval."""

    metrics: tuple[str, ...]
    interval_ms: int


def subscription_of(own: Mapping[str, str]) -> Subscription:
    """Parses the configs of one subscription."""

    def value(name: str, default: str) -> list[str] | int:
        found: list[str] | int = CLIENT_METRICS_CONFIGS[name].parse_stored(own.get(name, default))
        return found

    interval_ms, metrics = value("interval.ms", str(INTERVAL_MS)), value("metrics", "")
    patterns = value("match", "")
    assert isinstance(interval_ms, int)
    assert isinstance(metrics, list)
    assert isinstance(patterns, list)
    match: tuple[tuple[str, Matches], ...] | None = None
    with suppress(ConfigError):  # Java controllers store patterns that RE2 does not support
        match = tuple(client_patterns(patterns).items())
    return Subscription(frozenset(metrics), interval_ms, match)


def wanted_of(client: Mapping[str, str], subscriptions: Iterable[Subscription]) -> Wanted:
    """Returns the metrics of all matching subscriptions, with their shortest interval."""
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(client):
            metrics |= subscription.metrics
            interval_ms = min(interval_ms, subscription.interval_ms)
    if ALL_METRICS in metrics:
        metrics = {ALL_METRICS}
    return Wanted(tuple(sorted(metrics)), interval_ms)

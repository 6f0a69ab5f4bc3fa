"""Which metrics a client is asked for: subscriptions are configs, and match clients by what is known of them.

Source: Kafka's `ClientMetricsConfigs`, `ClientMetricsInstanceMetadata`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from node.config.client_metrics_keys import CLIENT_METRICS_CONFIGS
from quorum.metadata.image import CLIENT_METRICS_RESOURCE, ConfigsImage

ALL_METRICS = "*"
# Also where a subscription asks for less often: Kafka's clients are never told more.
INTERVAL_MS = 300_000
# What clients say of themselves is matched up to here: patterns are the operator's, these texts are not.
_CHARACTERS_MAX = 255


@dataclass(frozen=True, slots=True)
class Subscription:
    """`match` are patterns by parameter, all of which must match; none matches every client."""

    metrics: frozenset[str]
    interval_ms: int
    match: tuple[tuple[str, re.Pattern[str]], ...]

    def matches(self, client: Mapping[str, str]) -> bool:
        """`client` has the texts by parameter, without those that are not known."""
        return all(
            name in client
            and len(client[name]) <= _CHARACTERS_MAX
            and pattern.fullmatch(client[name])
            for name, pattern in self.match
        )


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one client is asked to push, and how often."""

    metrics: tuple[str, ...]
    interval_ms: int


def subscriptions_of(configs: ConfigsImage) -> list[Subscription]:
    """All that the metadata has."""
    return [
        _subscription(own)
        for (kind, _), own in configs.by_resource.items()
        if kind == CLIENT_METRICS_RESOURCE and own
    ]


def _subscription(own: Mapping[str, str]) -> Subscription:
    def value(name: str, default: str) -> list[str] | int:
        found: list[str] | int = CLIENT_METRICS_CONFIGS[name].parse_stored(own.get(name, default))
        return found

    interval_ms, metrics = value("interval.ms", str(INTERVAL_MS)), value("metrics", "")
    patterns = value("match", "")
    assert isinstance(interval_ms, int)
    assert isinstance(metrics, list)
    assert isinstance(patterns, list)
    match: dict[str, re.Pattern[str]] = {}
    for one in patterns:  # the controller has looked at them
        name, _, pattern = one.partition("=")
        match[name.strip()] = re.compile(pattern.strip())
    return Subscription(frozenset(metrics), interval_ms, tuple(match.items()))


def wanted_of(client: Mapping[str, str], subscriptions: Iterable[Subscription]) -> Wanted:
    """All that any matching subscription wants, at the pace of the most impatient."""
    metrics: set[str] = set()
    interval_ms = INTERVAL_MS
    for one in subscriptions:
        if one.matches(client):
            metrics |= one.metrics
            interval_ms = min(interval_ms, one.interval_ms)
    if ALL_METRICS in metrics:
        metrics = {ALL_METRICS}
    return Wanted(tuple(sorted(metrics)), interval_ms)

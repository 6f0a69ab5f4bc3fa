"""The configs of a subscription to clients' metrics (KIP-714). Source: Kafka's `ClientMetricsConfigs`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from node.config.config_def import ConfigDef, ConfigError, ConfigKey
from wire.errors import ErrorCode, KafkaError

INTERVAL, MATCH = "interval.ms", "match"
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
# What of a client a pattern may look at.
MATCH_PARAMETERS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

CLIENT_METRICS_CONFIGS = ConfigDef(
    (
        ConfigKey(
            "metrics",
            "list",
            [],
            "Prefixes of the names of the metrics that clients push.",
        ),
        ConfigKey(INTERVAL, "int", 300_000, "Time between two pushes of a client."),
        ConfigKey(
            MATCH,
            "list",
            [],
            "Clients that push: those that match every NAME=PATTERN.",
        ),
    )
)


def check_client_metrics_configs(configs: Mapping[str, str]) -> None:
    """Looks at all configs of a subscription.

    Raises:
        KafkaError: INVALID_REQUEST, an unknown key, an interval out of bounds.
        ConfigError: a wrong value.
    """
    for key in configs:
        if key not in CLIENT_METRICS_CONFIGS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}"
            )
    values = {key: CLIENT_METRICS_CONFIGS[key].parse(text) for key, text in configs.items()}
    interval = values.get(INTERVAL)
    if interval is not None and not INTERVAL_MS_MIN <= interval <= INTERVAL_MS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval} for {INTERVAL}, interval must be between 100 and 3600000 (1 hour)",
        )
    for pattern in values.get(MATCH, ()):
        _check_pattern(pattern)


def _check_pattern(text: str) -> None:
    name, equals, pattern = text.partition("=")
    wrong = not equals or "=" in pattern or not pattern or name.strip() not in MATCH_PARAMETERS
    if not wrong:
        try:
            re.compile(pattern.strip())
        except re.error:
            wrong = True
    if wrong:
        raise ConfigError(
            MATCH, text, "is no pattern", answer=f"Illegal client matching pattern: {text}"
        )

"""The configs of a client metrics subscription (KIP-714). Source: Kafka's `ClientMetricsConfigs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import re2

from trimaran.node.config.config_def import ConfigDef, ConfigError, ConfigKey
from trimaran.wire.errors import ErrorCode, KafkaError

INTERVAL, MATCH = "interval.ms", "match"
INTERVAL_MS_MIN, INTERVAL_MS_MAX = 100, 3_600_000
# The longest text is matched within 0.1 ms by a pattern of this size; texts of clients are short, and so are patterns.
PATTERN_MEMORY_BYTES_MAX = 64 << 10
Matches = Callable[[str], object]
# The client properties that a pattern can match.
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
    """Checks all configs of a subscription.

    Raises:
        KafkaError: INVALID_REQUEST for an unknown key or an interval out of bounds.
        ConfigError: a value is invalid.
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
    client_patterns(values.get(MATCH, ()))


def client_patterns(listed: Iterable[str]) -> dict[str, Matches]:
    """Returns, by client parameter, a predicate that matches a whole text; of several patterns of a parameter the last
    is used.

    The text is the client's, so RE2 matches it, in linear time; at most one pattern of each parameter is compiled.

    Raises:
        ConfigError: a pattern of the operator is invalid for RE2, or takes too much memory.
    """
    texts: dict[str, tuple[str, str]] = {}
    for text in listed:
        name, equals, pattern = text.partition("=")
        if not equals or "=" in pattern or not pattern or name.strip() not in MATCH_PARAMETERS:
            raise _no_pattern(text)
        texts[name.strip()] = (pattern.strip(), text)
    return {name: _compiled(pattern, text) for name, (pattern, text) in texts.items()}


def _compiled(pattern: str, text: str) -> Matches:

    options = re2.Options()
    options.max_mem = PATTERN_MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True  # callers use no groups
    try:
        matches: Matches = re2.compile(pattern, options).fullmatch
    except re2.error:
        raise _no_pattern(text) from None
    finally:
        re2.purge()  # otherwise RE2 keeps the last hundred patterns
    return matches


def _no_pattern(text: str) -> ConfigError:
    return ConfigError(
        MATCH, text, "is no pattern", answer=f"Illegal client matching pattern: {text}"
    )

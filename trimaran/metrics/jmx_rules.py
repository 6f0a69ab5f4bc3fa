"""Rules for Prometheus' JMX exporter in Apache Kafka, which give its metrics the same names as trimaran's.

These are the names of Strimzi's rules, so Strimzi's dashboards work as well. A rule is matched against
`domain<type=…, name=…, key=value><>attribute: value`; the first matching rule applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple


class Rule(NamedTuple):
    """A rule; `value` replaces a value that is not a number."""

    pattern: str
    name: str
    kind: str = "GAUGE"
    labels: tuple[tuple[str, str], ...] = ()
    value: str | None = None


# Other beans cost the exporter nothing; it reads every attribute of the beans in this list.
DOMAINS = ("kafka.cluster", "kafka.controller", "kafka.log", "kafka.network", "kafka.server")
# Four fifths of all values are components of the request time of each API; `TotalTimeMs` is the total.
PARTS_OF_REQUESTS = (
    *("LocalTimeMs", "RemoteTimeMs", "ThrottleTimeMs", "RequestQueueTimeMs", "ResponseQueueTimeMs"),
    *("ResponseSendTimeMs", "MessageConversionsTimeMs", "RequestBytes", "TemporaryMemoryBytes"),
)
_BEAN = r"kafka.(\w+)<type=(.+), name=(.+)"
_KEYS_MAX = 3  # the keys of a bean besides its type and name, such as group, topic and partition


def _with_keys(
    attribute: str, suffix: str, kind: str, *, tail: str = "", quantile: bool = False
) -> Iterator[Rule]:
    """Returns a rule for each number of further keys, which become labels; `tail` is the end of the bean's name."""
    for count in range(_KEYS_MAX, -1, -1):
        keys = "".join(", (.+)=(.+)" for _ in range(count))
        labels = tuple((f"${4 + 2 * i}", f"${5 + 2 * i}") for i in range(count))
        if quantile:
            labels = (*labels, ("quantile", f"0.${4 + 2 * count}"))
        yield Rule(f"{_BEAN}{tail}{keys}><>{attribute}", f"kafka_$1_$2_$3{suffix}", kind, labels)


def _of_clients(kind: str, prefix: str) -> Iterator[Rule]:
    """Returns a rule for a bean whose attributes are the metrics, as those of Kafka's client library (`Metrics`)."""
    yield Rule(rf"kafka.server<type={kind}><>(.+-total):", f"{prefix}_$1", "COUNTER")
    yield Rule(rf"kafka.server<type={kind}><>(.+):", f"{prefix}_$1")


def _of_coordinators(kind: str, prefix: str) -> Iterator[Rule]:
    """Returns rules as `_of_clients`, for beans with up to two keys; a count of rebalances is a counter."""
    for count in range(2, -1, -1):
        keys = "".join(", (.+)=(.+)" for _ in range(count))
        labels = tuple((f"${1 + 2 * i}", f"${2 + 2 * i}") for i in range(count))
        bean, name = f"kafka.server<type={kind}{keys}><>", f"{prefix}_${1 + 2 * count}"
        if not count:
            yield Rule(rf"{bean}(.+-rebalance)-count:", f"{name}_total", "COUNTER")
            yield Rule(rf"{bean}(.+-total):", name, "COUNTER")
        yield Rule(rf"{bean}(.+):", name, "GAUGE", labels)


_PROCESSOR = r"kafka.server<type=socket-server-metrics, listener=(.+), networkProcessor=(.+)><>"
_OF_PROCESSOR = (("listener", "$1"), ("network_processor", "$2"))
RULES = (
    Rule(
        r"kafka.server<type=raft-metrics><>current-state: ([a-z-]+)",
        "kafka_server_raftmetrics_current_state",
        labels=(("current_state", "$1"),),
        value="1",
    ),
    *_of_clients("raft-metrics", "kafka_server_raftmetrics"),
    *_of_clients("raft-channel-metrics", "kafka_server_raftchannelmetrics"),
    *_of_clients("broker-metadata-metrics", "kafka_server_brokermetadatametrics"),
    *_of_coordinators("group-coordinator-metrics", "kafka_server_group_coordinator_metrics"),
    *_of_coordinators("share-coordinator-metrics", "kafka_server_share_coordinator_metrics"),
    Rule(
        r"kafka.server<type=ShareGroupMetrics, name=DeadLetterQueueRecordCount, group=(.+)><>Count",
        "kafka_server_sharegroupmetrics_deadletterqueuerecordcount_total",
        "COUNTER",
        (("group", "$1"),),
    ),
    Rule(
        rf"{_PROCESSOR}(.+-total):",
        "kafka_server_socket_server_metrics_$3",
        "COUNTER",
        _OF_PROCESSOR,
    ),
    Rule(rf"{_PROCESSOR}(.+):", "kafka_server_socket_server_metrics_$3", "GAUGE", _OF_PROCESSOR),
    *_with_keys("Count", "_total", "COUNTER", tail="PerSec"),
    *_with_keys("(?:MeanRate|Value)", "_percent", "GAUGE", tail="Percent"),
    *_with_keys(r"(\d+)thPercentile", "", "GAUGE", quantile=True),
    *_with_keys("Count", "_count", "COUNTER"),
    *_with_keys("Value", "", "GAUGE"),
)


def jmx_rules() -> str:
    """Returns the rules as the exporter's configuration file, in YAML."""
    left_out = (f"kafka.network:type=RequestMetrics,name={name},*" for name in PARTS_OF_REQUESTS)
    lines = [
        "lowercaseOutputName: true",
        f"includeObjectNames: {json.dumps([f'{domain}:*' for domain in DOMAINS])}",
        f"excludeObjectNames: {json.dumps([*left_out])}",
        "rules:",
        *map(_written, RULES),
    ]
    return "\n".join([*lines, ""])


def _written(rule: Rule) -> str:
    lines = [
        f"  - pattern: {json.dumps(rule.pattern)}",
        f"    name: {json.dumps(rule.name)}",
        f"    type: {rule.kind}",
    ]
    if rule.value is not None:
        lines.append(f"    value: {rule.value}")
    if rule.labels:
        pairs = ", ".join(f"{json.dumps(key)}: {json.dumps(text)}" for key, text in rule.labels)
        lines.append(f"    labels: {{{pairs}}}")
    return "\n".join(lines)

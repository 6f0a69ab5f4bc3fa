"""Metrics of a broker's traffic, by topic and in total. Source: Kafka's `BrokerTopicMetrics`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from trimaran.broker.partitions.traffic import TopicTraffic, Traffic
from trimaran.metrics.families import Families, MetricLine, Table, counter, counters, families


class TrafficState(NamedTuple):
    traffic: Traffic
    topics: list[tuple[str, TopicTraffic]]
    total: TopicTraffic


def _by_topic(
    name: str, text: str, read: Callable[[TopicTraffic], int]
) -> MetricLine[TrafficState]:
    """Declares a counter with a sample for each topic, and one without a topic for the total."""
    return counters(
        name,
        f"{text} Without a topic: of all.",
        ("topic",),
        "topics on this broker + 1",
        lambda s: [
            *(((topic,), read(traffic)) for topic, traffic in s.topics),
            ((), read(s.total)),
        ],
    )


_TOPICS = "kafka_server_brokertopicmetrics"
TOPIC_METRICS: Table[TrafficState] = (
    _by_topic(f"{_TOPICS}_bytesin", "Bytes of batches that producers sent.", lambda t: t.bytes_in),
    _by_topic(f"{_TOPICS}_bytesout", "Bytes of batches that consumers got.", lambda t: t.bytes_out),
    _by_topic(f"{_TOPICS}_messagesin", "Records that producers sent.", lambda t: t.messages_in),
    _by_topic(
        f"{_TOPICS}_bytesrejected",
        "Bytes of batches that were too large.",
        lambda t: t.bytes_rejected,
    ),
    _by_topic(
        f"{_TOPICS}_totalproducerequests", "Partitions in Produce requests.", lambda t: t.produces
    ),
    _by_topic(
        f"{_TOPICS}_failedproducerequests",
        "The same, answered by an error.",
        lambda t: t.failed_produces,
    ),
    _by_topic(
        f"{_TOPICS}_totalfetchrequests",
        "Partitions answered in Fetch requests.",
        lambda t: t.fetches,
    ),
    _by_topic(
        f"{_TOPICS}_failedfetchrequests",
        "The same, answered by an error.",
        lambda t: t.failed_fetches,
    ),
    _by_topic(
        f"{_TOPICS}_replicationbytesin",
        "Bytes of batches copied from leaders.",
        lambda t: t.replication_bytes_in,
    ),
    _by_topic(
        f"{_TOPICS}_replicationbytesout",
        "Bytes of batches that followers got.",
        lambda t: t.replication_bytes_out,
    ),
    _by_topic(
        f"{_TOPICS}_totalsharefetchrequests",
        "ShareFetch requests with the topic.",
        lambda t: t.share_fetches,
    ),
    _by_topic(
        f"{_TOPICS}_failedsharefetchrequests",
        "The same, with an error for the topic.",
        lambda t: t.failed_share_fetches,
    ),
    _by_topic(
        f"{_TOPICS}_totalshareacknowledgementrequests",
        "Requests with acknowledgements of the topic's records.",
        lambda t: t.share_acknowledgements,
    ),
    _by_topic(
        f"{_TOPICS}_failedshareacknowledgementrequests",
        "The same, with an error for the topic.",
        lambda t: t.failed_share_acknowledgements,
    ),
    counter(
        "kafka_server_replicamanager_isrshrinks",
        "Replicas left the ISR of a partition led here.",
        lambda s: s.traffic.isr_shrinks,
    ),
    counter(
        "kafka_server_replicamanager_isrexpands",
        "Replicas joined the ISR of a partition led here.",
        lambda s: s.traffic.isr_expands,
    ),
)


def topic_metrics(traffic: Traffic) -> Families:
    return families(TOPIC_METRICS, TrafficState(traffic, list(traffic), traffic.total()))

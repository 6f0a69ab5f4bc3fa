"""Traffic of a broker, by topic and in total. Source: Kafka's `BrokerTopicMetrics`."""

from __future__ import annotations

from trimaran.broker.partitions.traffic import TopicTraffic, Traffic
from trimaran.metrics.families import Families, counter, counters

# Kafka's name, our counter, what it is.
_COUNTERS = (
    ("bytesin", "bytes_in", "Bytes of batches that producers sent."),
    ("bytesout", "bytes_out", "Bytes of batches that consumers got."),
    ("messagesin", "messages_in", "Records that producers sent."),
    ("bytesrejected", "bytes_rejected", "Bytes of batches that were too large."),
    ("totalproducerequests", "produces", "Partitions in Produce requests."),
    ("failedproducerequests", "failed_produces", "The same, answered by an error."),
    ("totalfetchrequests", "fetches", "Partitions answered in Fetch requests."),
    ("failedfetchrequests", "failed_fetches", "The same, answered by an error."),
    ("replicationbytesin", "replication_bytes_in", "Bytes of batches copied from leaders."),
    ("replicationbytesout", "replication_bytes_out", "Bytes of batches that followers got."),
)


def topic_metrics(traffic: Traffic) -> Families:
    topics = list(traffic)
    total = traffic.total()
    for name, attribute, doc in _COUNTERS:
        family = counters(
            f"kafka_server_brokertopicmetrics_{name}",
            f"{doc} Without a topic: of all.",
            ("topic",),
            [((topic,), _value(each_topic, attribute)) for topic, each_topic in topics],
        )
        family.add_sample(f"{family.name}_total", {}, _value(total, attribute))
        yield family
        yield None
    for name, doc, value in (
        ("isrshrinks", "Replicas left the ISR of a partition led here.", traffic.isr_shrinks),
        ("isrexpands", "Replicas joined the ISR of a partition led here.", traffic.isr_expands),
    ):
        yield counter(f"kafka_server_replicamanager_{name}", doc, value)


def _value(traffic: TopicTraffic, attribute: str) -> int:
    found: int = getattr(traffic, attribute)
    return found

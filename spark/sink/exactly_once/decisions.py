"""The topic of a query's decisions, `PREFIX-decisions`: its records, and its last one.

A record is JSON, so that any consumer can read it. The topic has one partition and is compacted; the last record is the
current decision.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trimaran.log.batches.records import iter_records
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.origins.origin import Part, Reading
from trimaran.spark.origins.running_cluster.brokers import BrokerOrigin
from trimaran.spark.origins.running_cluster.connection import ClusterSettings
from trimaran.spark.sink.exactly_once.protocol import Decision, Prepared, ProducerLease
from trimaran.spark.sink.options import CreatedTopics
from trimaran.spark.sink.topics import WrittenTopics, create_topic
from trimaran.wire.client.destinations import AnyNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Offset, ProducerEpoch, ProducerId, TopicPartition
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

FORMAT = 1
KEY = b"decision"
# A decision of 10,000 tasks has about 800 KB.
DECISION_BYTES_MAX = 8 << 20
CONFIGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(DECISION_BYTES_MAX),
    "segment.bytes": str(16 << 20),
}
# The number of offsets before the end that are read first, and the factor by which it grows until there is a decision
# among them: offsets between decisions belong to markers and aborted transactions.
LAST_OFFSETS = 16


def topic_of(prefix: str) -> TopicPartition:
    """Returns the partition of the decisions of a query."""
    return TopicPartition(f"{prefix}-decisions", 0)


def encoded(decision: Decision) -> bytes:
    """Returns the value of a record."""
    transactions = [
        [t.transactional_id, t.lease.producer_id, t.lease.epoch] for t in decision.transactions
    ]
    fields = {
        "format": FORMAT,
        "query": decision.query,
        "batch": decision.batch,
        "state": "finished" if decision.is_finished else "decided",
        "transactions": transactions,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decoded(value: bytes | None, topic: str) -> Decision:
    """Returns the decision in a record's value. Raises WriteFailed: the value is not a decision, or a newer version
    wrote it.
    """
    try:
        fields: Any = json.loads(value or b"")
        if fields["format"] != FORMAT:
            raise WriteFailed(
                f"topic {topic} has decisions of format {fields['format']}, which a newer version has written; use that"
            )
        return Decision(
            str(fields["query"]),
            int(fields["batch"]),
            tuple(
                Prepared(str(name), ProducerLease(ProducerId(int(pid)), ProducerEpoch(int(epoch))))
                for name, pid, epoch in fields["transactions"]
            ),
            {"finished": True, "decided": False}[fields["state"]],
        )
    except (ValueError, TypeError, KeyError):
        raise WriteFailed(
            f"the last record of topic {topic} is not a decision: does something else write to this topic? Use another "
            "transactionalIdPrefix"
        ) from None


def ensure_topic(
    client: BlockingClient, topic: str, creation: CreatedTopics | None, block_seconds: float
) -> None:
    """Creates the topic unless it exists. Raises WriteFailed."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
    )
    found = single_item(client.call(AnyNode(), request).topics, "topic")
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        factor = -1 if creation is None else creation.replication_factor
        create_topic(client, topic, CreatedTopics(1, factor), CONFIGS)
    # With `CreatedTopics` the request does not let a broker create the topic with its own defaults.
    WrittenTopics(client, CreatedTopics(1, -1), block_seconds).find(topic)


def last_decision(cluster: ClusterSettings, partition: TopicPartition) -> Decision | None:
    """Returns the last committed decision; the topic must exist. Raises WriteFailed, DataUnreadable."""
    origin = BrokerOrigin(cluster, committed=True)
    bounds = origin.bounds([partition])[partition]
    count = LAST_OFFSETS
    while True:
        start = Offset(max(bounds.start, bounds.end - count))
        last = None
        for task in origin.tasks({partition: [Part(start, bounds.end)]}, None, 1):
            for span in task:
                for located in span.batches(Reading(committed=True)):
                    for record, _ in iter_records(located.batch):
                        last = record
        if last is not None:
            return decoded(last.value, partition.topic)
        if start <= bounds.start:
            return None
        count *= LAST_OFFSETS

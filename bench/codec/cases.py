"""The messages for measuring codecs: those of the hot paths, in the newest versions that all peers support."""

from __future__ import annotations

from typing import NamedTuple

from bench.sizes import sized
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from trimaran.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from trimaran.wire.records.brokers import BrokerEndpoint, RegisterBrokerRecord
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from trimaran.wire.schema import Message

TOPICS = sized(1_000, 10)
PARTITIONS = 10
REPLICAS = [1, 2, 3]


class Case(NamedTuple):
    """One row of the table; `kind` is request, response or record."""

    name: str
    kind: str
    message: Message
    version: int


def topic_id(number: int) -> bytes:
    return number.to_bytes(8, "big") * 2


def produce_request(topics: int, partitions: int, batch_bytes: int) -> ProduceRequest:
    return ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            TopicProduceData(
                topic_id=topic_id(t + 1),
                partition_data=[
                    PartitionProduceData(index=p, records=bytes(batch_bytes))
                    for p in range(partitions)
                ],
            )
            for t in range(topics)
        ],
    )


def produce_response(topics: int, partitions: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic_id=topic_id(t + 1),
                partition_responses=[
                    PartitionProduceResponse(index=p, base_offset=1_000_000 + p, log_start_offset=7)
                    for p in range(partitions)
                ],
            )
            for t in range(topics)
        ]
    )


def fetch_request(topics: int, partitions: int) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=77,
        session_epoch=3,
        rack_id="a",
        topics=[
            FetchTopic(
                topic_id=topic_id(t + 1),
                partitions=[
                    FetchPartition(
                        partition=p,
                        current_leader_epoch=5,
                        fetch_offset=1_000_000 + p,
                        partition_max_bytes=1 << 20,
                    )
                    for p in range(partitions)
                ],
            )
            for t in range(topics)
        ],
    )


def fetch_response(topics: int, partitions: int, batch_bytes: int) -> FetchResponse:
    return FetchResponse(
        session_id=77,
        responses=[
            FetchableTopicResponse(
                topic_id=topic_id(t + 1),
                partitions=[
                    PartitionData(
                        partition_index=p,
                        high_watermark=1_000_000,
                        last_stable_offset=999_000,
                        log_start_offset=7,
                        aborted_transactions=None,
                        records=bytes(batch_bytes),
                    )
                    for p in range(partitions)
                ],
            )
            for t in range(topics)
        ],
    )


def metadata_request() -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"topic-{t:04}") for t in range(100)])


def metadata_response() -> MetadataResponse:
    return MetadataResponse(
        cluster_id="abcdefghijklmnopqrstuv",
        controller_id=1,
        brokers=[
            MetadataResponseBroker(node_id=n, host=f"broker-{n}.example.org", port=9092, rack="a")
            for n in REPLICAS
        ],
        topics=[
            MetadataResponseTopic(
                name=f"topic-{t:04}",
                topic_id=topic_id(t + 1),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=p,
                        leader_id=REPLICAS[p % 3],
                        leader_epoch=5,
                        replica_nodes=REPLICAS,
                        isr_nodes=REPLICAS,
                    )
                    for p in range(PARTITIONS)
                ],
            )
            for t in range(TOPICS)
        ],
    )


def register_broker_record() -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=topic_id(1),
        broker_epoch=100,
        end_points=[
            BrokerEndpoint(name="PLAINTEXT", host="b1.example.org", port=9092, security_protocol=0)
        ],
        features=[],
        rack="a",
        log_dirs=[topic_id(5)],
    )


def partition_record() -> PartitionRecord:
    return PartitionRecord(
        partition_id=3,
        topic_id=topic_id(9),
        replicas=REPLICAS,
        isr=REPLICAS,
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=5,
        partition_epoch=6,
        directories=[topic_id(5)] * 3,
    )


def cases() -> list[Case]:
    change = PartitionChangeRecord(partition_id=3, topic_id=topic_id(9), isr=[1, 2], leader=1)
    config = ConfigRecord(
        resource_type=2, resource_name="topic-0001", name="retention.ms", value="86400000"
    )
    return [
        Case("Produce request, 1 × 1 of 1 KiB", "request", produce_request(1, 1, 1024), 13),
        Case("Produce request, 10 × 10 of 1 KiB", "request", produce_request(10, 10, 1024), 13),
        Case("Produce response, 1 × 1", "response", produce_response(1, 1), 13),
        Case("Produce response, 10 × 10", "response", produce_response(10, 10), 13),
        Case("Fetch request, 1 × 1", "request", fetch_request(1, 1), 18),
        Case("Fetch request, 100 × 10", "request", fetch_request(100, PARTITIONS), 18),
        Case("Fetch response, 1 × 1 of 1 KiB", "response", fetch_response(1, 1, 1024), 18),
        Case("Fetch response, 100 × 10 of 100 B", "response", fetch_response(100, 10, 100), 18),
        Case("Metadata request, 100 names", "request", metadata_request(), 13),
        Case(f"Metadata response, {TOPICS:,} × {PARTITIONS}", "response", metadata_response(), 13),
        Case("TopicRecord", "record", TopicRecord(name="topic-0001", topic_id=topic_id(9)), 0),
        Case("PartitionRecord", "record", partition_record(), 2),
        Case("PartitionChangeRecord", "record", change, 2),
        Case("ConfigRecord", "record", config, 0),
        Case("RegisterBrokerRecord", "record", register_broker_record(), 3),
    ]

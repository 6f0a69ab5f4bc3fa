"""The requests whose calls are counted; each is built from the previous response, the first one from None."""

from __future__ import annotations

import time
from typing import Any, Protocol

from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.messages.share_fetch import AcknowledgementBatch, ShareFetchRequest
from trimaran.wire.messages.share_fetch import FetchPartition as SharePartition
from trimaran.wire.messages.share_fetch import FetchTopic as ShareTopic
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from trimaran.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from trimaran.wire.schema import Message

GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
RETRY_SECONDS = 0.01
ACCEPT = 1


class Client(Protocol):
    """A connection. `topic_id`, the number of created topics, and the epoch of the share session belong to requests."""

    topic_id: bytes | None
    created: int
    shared: int

    def ask(self, request: Message) -> Any:
        """Returns the response."""


def new_topic(name: str, replicas: int) -> CreatableTopic:
    return CreatableTopic(
        name=name, num_partitions=1, replication_factor=replicas, assignments=[], configs=[]
    )


def produce_request(topic_id: bytes, **transactional: str) -> ProduceRequest:
    batch = build_batch([NewRecord(None, b"v" * 100, now_ms())])
    data = [PartitionProduceData(index=0, records=bytes(batch))]
    one = TopicProduceData(name="t", topic_id=topic_id, partition_data=data)
    return ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[one], **transactional)


def fetch_request(topic_id: bytes) -> FetchRequest:
    one = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=120)
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=[one])],
    )


def metadata(_client: Client, _last: Any) -> Message:
    one = MetadataRequestTopic(name="t")
    return MetadataRequest(topics=[one], allow_auto_topic_creation=False)


def produce_to(client: Client, _last: Any) -> Message:
    return produce_request(_topic_id(client))


def fetch_from(client: Client, _last: Any) -> Message:
    return fetch_request(_topic_id(client))


def _topic_id(client: Client) -> bytes:
    """Returns the id of `t`; the first call of a connection sends a Metadata request."""
    if client.topic_id is None:
        client.topic_id = client.ask(metadata(client, None)).topics[0].topic_id
    return client.topic_id


def heartbeat(client: Client, last: Any) -> Message:
    """Returns the heartbeat of a group's only member, after its assignment."""
    if last is not None and last.error_code == 0:
        return ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=last.member_id, member_epoch=last.member_epoch
        )
    _coordinator(client, "g", GROUP_COORDINATOR)
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def share_heartbeat(client: Client, last: Any) -> Message:
    """Returns the heartbeat of a share group's only member, after its assignment."""
    if last is None or last.error_code:
        _coordinator(client, "s", GROUP_COORDINATOR)
        return ShareGroupHeartbeatRequest(
            group_id="s", member_id="member", member_epoch=0, subscribed_topic_names=["t"]
        )
    return ShareGroupHeartbeatRequest(
        group_id="s", member_id="member", member_epoch=last.member_epoch
    )


def streams_heartbeat(client: Client, last: Any) -> Message:
    """Returns the heartbeat of a streams group's only member, after its assignment."""
    if last is not None and last.error_code == 0:
        return StreamsGroupHeartbeatRequest(
            group_id="streams",
            member_id="member",
            member_epoch=last.member_epoch,
            endpoint_information_epoch=0,
        )
    _coordinator(client, "streams", GROUP_COORDINATOR)
    read = Subtopology(
        subtopology_id="0",
        source_topics=["t"],
        source_topic_regex=[],
        state_changelog_topics=[],
        repartition_sink_topics=[],
        repartition_source_topics=[],
        copartition_groups=[],
    )
    return StreamsGroupHeartbeatRequest(
        group_id="streams",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        topology=Topology(epoch=0, subtopologies=[read]),
        process_id="process",
        endpoint_information_epoch=0,
        user_endpoint=None,
        client_tags=[],
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def share_fetch(client: Client, last: Any) -> Message:
    """Produces one batch, and returns the request of a share group's member for it, which accepts the previous one."""
    acknowledged = []
    if last is None:
        while client.ask(_share_fetch(client, 0, [])).responses[0].partitions[0].error_code:
            time.sleep(RETRY_SECONDS)
    else:
        assert last.error_code == 0, last
        for part in [part for topic in last.responses for part in topic.partitions]:
            assert part.error_code == part.acknowledge_error_code == 0, part
            acknowledged += [
                AcknowledgementBatch(
                    first_offset=each.first_offset,
                    last_offset=each.last_offset,
                    acknowledge_types=[ACCEPT],
                )
                for each in part.acquired_records
            ]
        assert acknowledged or client.shared == 1, last
    client.shared += 1
    client.ask(produce_to(client, None))
    return _share_fetch(client, client.shared, acknowledged)


def _share_fetch(client: Client, epoch: int, acknowledged: list[AcknowledgementBatch]) -> Message:
    part = SharePartition(partition_index=0, acknowledgement_batches=acknowledged)
    return ShareFetchRequest(
        group_id="s",
        member_id="member-of-fetches",
        share_session_epoch=epoch,
        max_wait_ms=500 if epoch > 0 else 0,
        min_bytes=1,
        max_records=500,
        batch_size=500,
        topics=[ShareTopic(topic_id=_topic_id(client), partitions=[part])],
        forgotten_topics_data=[],
    )


def _coordinator(client: Client, key: str, kind: int) -> None:
    """Waits for the coordinator, since the first request creates its topic."""
    request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
    while client.ask(request).coordinators[0].error_code:
        time.sleep(RETRY_SECONDS)


def end_txn(client: Client, last: Any) -> Message:
    """Produces one batch in a transaction, and returns the request that commits it."""
    if last is None:
        _coordinator(client, "id", TRANSACTION_COORDINATOR)
        last = client.ask(
            InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
        )
    assert last.error_code == 0, last
    producer = {"producer_id": last.producer_id, "producer_epoch": last.producer_epoch}
    request = produce_request(_topic_id(client), transactional_id="id")
    request.topic_data[0].partition_data[0].records = bytes(
        build_batch(
            [NewRecord(None, b"v" * 100, now_ms())],
            **producer,
            base_sequence=0,
            is_transactional=True,
        )
    )
    (answered,) = client.ask(request).responses[0].partition_responses
    while answered.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:  # the last one is being ended
        time.sleep(RETRY_SECONDS)
        (answered,) = client.ask(request).responses[0].partition_responses
    assert answered.error_code == 0, answered
    return EndTxnRequest(transactional_id="id", committed=True, **producer)


def create_topics(client: Client, _last: Any) -> Message:
    client.created += 1
    return CreateTopicsRequest(topics=[new_topic(f"n{client.created}", 1)], timeout_ms=5_000)

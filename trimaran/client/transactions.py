"""Transactions as reported by their coordinators, and open ones as reported by leaders of partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client.topic_partitions import leaders_of
from trimaran.errors.refused import Needs, check, check_transactional_id
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.destinations import CoordinatorNode, LeaderNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.identity import NO_OFFSET, CoordinatorEpoch, Offset, ProducerId, TopicPartition
from trimaran.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from trimaran.wire.messages.describe_transactions import DescribeTransactionsRequest
from trimaran.wire.messages.list_transactions import ListTransactionsRequest
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.describe_producers import ProducerState

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


def transaction_rows(
    client: BlockingClient,
    *,
    states: Collection[str] = (),
    producer_ids: Collection[ProducerId] = (),
    open_longer_than_ms: int | None = None,
    pattern: str | None = None,
) -> list[dict[str, Any]]:
    """Returns a row for each transactional id of every coordinator, in the order of ids. Each argument is a condition
    that a row must meet.

    Raises:
        UserError: there is no such state.
        KafkaError: a coordinator refused.
    """
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=[ProducerId(id_) for id_ in producer_ids],
        duration_filter=-1 if open_longer_than_ms is None else open_longer_than_ms,
        transactional_id_pattern=pattern,
    )
    client.refresh()
    rows = []
    for node_id in sorted(client.routing.nodes):
        response = client.call(node_id, request)
        check(response.error_code, None, f"broker {node_id}")
        if response.unknown_state_filters:
            raise _unknown_states(response.unknown_state_filters)
        rows += [
            {
                "id": found.transactional_id,
                "producer": found.producer_id,
                "state": found.transaction_state,
                "coordinator": node_id,
            }
            for found in response.transaction_states
        ]
    return sorted(rows, key=lambda row: str(row["id"]))


def _unknown_states(states: Sequence[str]) -> UserError:
    return UserError(
        f"there is no state {', '.join(states)}",
        "it is not one of the states of a transactional id",
        "--state takes Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort",
        exit_code=Exit.USAGE,
    )


def transaction_described(
    client: BlockingClient, transactional_id: str, *, now_ms: int
) -> dict[str, Any]:
    """Returns state, producer, times and partitions of a transactional id. Raises KafkaError, and UserError if there is
    no such id.
    """
    found = _described(client, transactional_id)
    where = client.routing.locate(_coordinator_of(transactional_id))
    nodes = {address: node for node, address in client.routing.nodes.items()}
    check_transactional_id(transactional_id, found.error_code)
    start_ms = found.transaction_start_time_ms
    is_open = found.transaction_state in OPEN_STATES
    return {
        "id": found.transactional_id,
        "state": found.transaction_state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "begun_ms_ago": now_ms - start_ms if is_open else None,
        "start_ms": start_ms if start_ms >= 0 else None,
        "coordinator": None if where is None else nodes.get(where),
        "partitions": [
            f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions
        ],
    }


def _described(client: BlockingClient, transactional_id: str) -> Any:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response = client.call(_coordinator_of(transactional_id), request)
    return single_item(response.transaction_states, "transaction")


def _coordinator_of(transactional_id: str) -> CoordinatorNode:
    return CoordinatorNode(transactional_id, key_type=1)


class _Open(NamedTuple):
    """A transaction that is open in a partition, as reported by its leader."""

    partition: TopicPartition
    producer: ProducerState


def hanging_rows(
    client: BlockingClient, topics: Sequence[str] | None, *, older_than_ms: int, now_ms: int
) -> list[dict[str, Any]]:
    """Returns a row for each transaction that is open in a partition, but that no coordinator will complete; in all
    topics without names. Transactions are omitted whose producers have written within `older_than_ms`.
    """
    found = [
        transaction
        for name in topics or _topics(client)
        for transaction in _open_in(client, name)
        if transaction.producer.last_timestamp <= now_ms - older_than_ms
    ]
    owners = _owners(client, {item.producer.producer_id for item in found})
    return [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "start_offset": producer.current_txn_start_offset,
            "producer": producer.producer_id,
            "epoch": producer.producer_epoch,
            "last_written_ms_ago": now_ms - producer.last_timestamp,
        }
        for partition, producer in found
        if not _is_in_transaction(client, partition, owners.get(producer.producer_id))
    ]


def _topics(client: BlockingClient) -> list[str]:
    return sorted(topic.name for topic in client.refresh(None).topics if not topic.error_code)


def _open_in(client: BlockingClient, topic: str) -> Iterator[_Open]:
    for index in range(len(leaders_of(client, topic))):
        partition = TopicPartition(topic, index)
        for producer in _producers(client, partition):
            if producer.current_txn_start_offset != NO_OFFSET:
                yield _Open(partition, producer)


def _producers(client: BlockingClient, partition: TopicPartition) -> list[ProducerState]:
    topic = TopicRequest(name=partition.topic, partition_indexes=[partition.partition])
    response = client.call(LeaderNode(partition), DescribeProducersRequest(topics=[topic]))
    found = single_item(single_item(response.topics, "topic").partitions, "partition")
    check(found.error_code, None, str(partition), Needs("READ", topic=partition.topic))
    producers: list[ProducerState] = found.active_producers
    return producers


def _owners(client: BlockingClient, producer_ids: set[ProducerId]) -> dict[ProducerId, str]:
    """Returns the transactional ids by their present producer id."""
    if not producer_ids:
        return {}
    rows = transaction_rows(client, producer_ids=sorted(producer_ids))
    return {row["producer"]: row["id"] for row in rows}


def _is_in_transaction(
    client: BlockingClient, partition: TopicPartition, transactional_id: str | None
) -> bool:
    """True if the coordinator has the partition in an open transaction, which it will end."""
    if transactional_id is None:
        return False
    found = _described(client, transactional_id)
    is_open = found.transaction_state in OPEN_STATES
    partitions = {(topic.topic, index) for topic in found.topics for index in topic.partitions}
    return is_open and partition in partitions


def open_producer(
    client: BlockingClient, partition: TopicPartition, start_offset: Offset
) -> ProducerState | None:
    """Returns the producer whose open transaction begins at an offset of a partition, if there is one. Raises
    KafkaError.
    """
    for producer in _producers(client, partition):
        if producer.current_txn_start_offset == start_offset:
            return producer
    return None


def abort_transaction(
    client: BlockingClient, partition: TopicPartition, producer: ProducerState
) -> None:
    """Aborts the transaction of a producer in one partition, without its coordinator. Raises KafkaError."""
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[
            WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])
        ],
        coordinator_epoch=max(CoordinatorEpoch(0), producer.coordinator_epoch),
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    response = client.call(LeaderNode(partition), request)
    topic = single_item(single_item(response.markers, "marker").topics, "topic")
    found = single_item(topic.partitions, "partition")
    check(found.error_code, None, str(partition), Needs("ALTER"))

"""`transactions list|describe|hanging|abort`: transactions of coordinators, and open ones in partitions (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from cyclopts import Parameter, validators

from trimaran.cli import kafka_text
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, KafkaFormat, put, say, show_fields, show_rows
from trimaran.client import topic_partitions
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.runtime import clock
from trimaran.wire.client import destinations, response_checks
from trimaran.wire.identity import NO_OFFSET, CoordinatorEpoch, Offset, ProducerId, TopicPartition
from trimaran.wire.messages import describe_producers, describe_transactions, write_txn_markers
from trimaran.wire.messages import list_transactions as messages_list_transactions

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient
    from trimaran.wire.messages.describe_producers import ProducerState
    from trimaran.wire.messages.list_transactions import TransactionState

# Kafka's transaction.max.timeout.ms: no coordinator leaves a transaction open for longer.
OLDEST_MINUTES = 15
OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")
NOT_NEGATIVE = validators.Number(gte=0)


def list_transactions(
    *,
    state: Annotated[list[str] | None, Parameter(name=["--state"])] = None,
    producer_id: Annotated[list[ProducerId] | None, Parameter(name=["--producer-id"])] = None,
    open_longer_than_ms: Annotated[int | None, Parameter(validator=NOT_NEGATIVE)] = None,
    pattern: str | None = None,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> None:
    """Lists the transactional ids of every coordinator.

    Args:
        state: Only ids in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit or CompleteAbort. May
            be repeated.
        producer_id: Only the id of this producer. May be repeated.
        open_longer_than_ms: Only ids whose last transaction began more than this many milliseconds ago, or that have
            none.
        pattern: Only ids that match this regular expression as a whole (RE2).
    """
    request = messages_list_transactions.ListTransactionsRequest(
        state_filters=state or [],
        producer_id_filters=[ProducerId(id_) for id_ in producer_id or ()],
        duration_filter=-1 if open_longer_than_ms is None else open_longer_than_ms,
        transactional_id_pattern=pattern,
    )
    with brokers.connected() as client:
        rows = [
            {
                "id": found.transactional_id,
                "producer": found.producer_id,
                "state": found.transaction_state,
                "coordinator": node_id,
            }
            for node_id, found in _listed(client, request)
        ]
    rows.sort(key=lambda row: str(row["id"]))
    show_rows(
        rows,
        output,
        columns=["id", "producer", "state", "coordinator"],
        noun="transactional id",
        kafka=lambda: kafka_text.transactions_list(rows),
    )


def _listed(client: BlockingClient, request: Any) -> Iterator[tuple[int, TransactionState]]:
    client.refresh()
    for node_id in sorted(client.routing.nodes):
        response = client.call(node_id, request)
        refused.check(response.error_code, f"broker {node_id}")
        if response.unknown_state_filters:
            raise _unknown_states(response.unknown_state_filters)
        yield from ((node_id, found) for found in response.transaction_states)


def _unknown_states(states: Sequence[str]) -> UserError:
    return UserError(
        f"there is no state {', '.join(states)}",
        "it is not one of the states of a transactional id",
        "--state takes Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort",
        exit_code=Exit.USAGE,
    )


def describe(
    transactional_id: str, *, brokers: Brokers = BROKERS, output: KafkaFormat = "table"
) -> None:
    """Shows producer, state and partitions of a transactional id.

    Args:
        transactional_id: The transactional id.
    """
    with brokers.connected() as client:
        found = _described(client, transactional_id)
        where = client.routing.locate(destinations.CoordinatorNode(transactional_id, key_type=1))
        nodes = {address: node for node, address in client.routing.nodes.items()}
    refused.check_transactional_id(transactional_id, found.error_code)
    start_ms = found.transaction_start_time_ms
    is_open = found.transaction_state in OPEN_STATES
    fields = {
        "id": found.transactional_id,
        "state": found.transaction_state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "begun_ms_ago": clock.now_ms() - start_ms if is_open else None,
        "start_ms": start_ms if start_ms >= 0 else None,
        "coordinator": None if where is None else nodes.get(where),
        "partitions": [
            f"{topic.topic}-{index}" for topic in found.topics for index in topic.partitions
        ],
    }
    if output == "kafka":
        put(kafka_text.transaction_description(fields, clock.now_ms()))
        return
    show_fields(fields, output)


def _described(client: BlockingClient, transactional_id: str) -> Any:
    request = describe_transactions.DescribeTransactionsRequest(
        transactional_ids=[transactional_id]
    )
    response = client.call(destinations.CoordinatorNode(transactional_id, key_type=1), request)
    return response_checks.single_item(response.transaction_states, "transaction")


class _Open(NamedTuple):
    """A transaction that is open in a partition, as reported by its leader."""

    partition: TopicPartition
    producer: ProducerState


def hanging(
    topic: list[str] | None = None,
    *,
    older_than_minutes: Annotated[int, Parameter(validator=NOT_NEGATIVE)] = OLDEST_MINUTES,
    brokers: Brokers = BROKERS,
    output: Format = "table",
) -> int:
    """Lists transactions that are open in partitions, but that no coordinator will complete. Exit code 1 if there are
    any.

    Args:
        topic: Topics to check; by default all.
        older_than_minutes: Only transactions whose producer has written nothing for this long. Do not go below
            transaction.max.timeout.ms: younger ones may still be completed.
    """
    with brokers.connected() as client:
        before_ms = clock.now_ms() - older_than_minutes * 60_000
        found = [
            transaction
            for name in topic or _topics(client)
            for transaction in _open_in(client, name)
            if transaction.producer.last_timestamp <= before_ms
        ]
        owners = _owners(client, {item.producer.producer_id for item in found})
        rows = [
            _row(transaction) for transaction in found if not _is_owned(client, transaction, owners)
        ]
    columns = ["topic", "partition", "start_offset", "producer", "epoch", "last_written_ms_ago"]
    show_rows(rows, output, columns=columns)
    return Exit.NO if rows else Exit.OK


def _topics(client: BlockingClient) -> list[str]:
    return sorted(topic.name for topic in client.refresh(None).topics if not topic.error_code)


def _open_in(client: BlockingClient, topic: str) -> Iterator[_Open]:
    for index in range(len(topic_partitions.leaders_of(client, topic))):
        partition = TopicPartition(topic, index)
        for producer in _producers(client, partition):
            if producer.current_txn_start_offset != NO_OFFSET:
                yield _Open(partition, producer)


def _producers(client: BlockingClient, partition: TopicPartition) -> list[ProducerState]:
    topic = describe_producers.TopicRequest(
        name=partition.topic, partition_indexes=[partition.partition]
    )
    request = describe_producers.DescribeProducersRequest(topics=[topic])
    response = client.call(destinations.LeaderNode(partition), request)
    found = response_checks.single_item(
        response_checks.single_item(response.topics, "topic").partitions, "partition"
    )
    refused.check(found.error_code, str(partition))
    producers: list[ProducerState] = found.active_producers
    return producers


def _owners(client: BlockingClient, producer_ids: set[ProducerId]) -> dict[ProducerId, str]:
    """Returns the transactional ids by their present producer id."""
    if not producer_ids:
        return {}
    request = messages_list_transactions.ListTransactionsRequest(
        state_filters=[], producer_id_filters=sorted(producer_ids)
    )
    return {found.producer_id: found.transactional_id for _, found in _listed(client, request)}


def _is_owned(client: BlockingClient, transaction: _Open, owners: dict[ProducerId, str]) -> bool:
    """True if the coordinator has the partition in an open transaction, which it will end."""
    transactional_id = owners.get(transaction.producer.producer_id)
    if transactional_id is None:
        return False
    found = _described(client, transactional_id)
    is_open = found.transaction_state in OPEN_STATES
    partitions = {(topic.topic, index) for topic in found.topics for index in topic.partitions}
    return is_open and transaction.partition in partitions


def _row(transaction: _Open) -> dict[str, Any]:
    producer = transaction.producer
    return {
        "topic": transaction.partition.topic,
        "partition": transaction.partition.partition,
        "start_offset": producer.current_txn_start_offset,
        "producer": producer.producer_id,
        "epoch": producer.producer_epoch,
        "last_written_ms_ago": clock.now_ms() - producer.last_timestamp,
    }


def abort(
    topic: str,
    *,
    partition: Annotated[int, Parameter(name=["-p", "--partition"], validator=NOT_NEGATIVE)],
    start_offset: Annotated[Offset, Parameter(validator=NOT_NEGATIVE)],
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Aborts a transaction from the list of trimaran transactions hanging, in one partition and without its
    coordinator.

    Args:
        topic: The topic.
        start_offset: The first offset of the transaction, as listed.
        partition: The partition.
    """
    where = TopicPartition(topic, partition)
    with brokers.connected() as client:
        topic_partitions.ensure_partitions_exist(
            topic, [partition], len(topic_partitions.leaders_of(client, topic))
        )
        found = [
            producer
            for producer in _producers(client, where)
            if producer.current_txn_start_offset == start_offset
        ]
        if not found:
            raise UserError(
                f"there is no transaction to abort in {where}",
                f"no open transaction begins at offset {start_offset}",
                f"trimaran transactions hanging {topic} --older-than-minutes 0 lists those that are open",
                exit_code=Exit.NO,
            )
        if dry_run:
            producer = found[0].producer_id
            say(f"would abort in {where}: producer {producer}; nothing was changed")
            return
        _write_abort(client, where, found[0])
    say(f"aborted in {where}: producer {found[0].producer_id}")


def _write_abort(
    client: BlockingClient, partition: TopicPartition, producer: ProducerState
) -> None:
    marker = write_txn_markers.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        topics=[
            write_txn_markers.WritableTxnMarkerTopic(
                name=partition.topic, partition_indexes=[partition.partition]
            )
        ],
        coordinator_epoch=max(CoordinatorEpoch(0), producer.coordinator_epoch),
    )
    response = client.call(
        destinations.LeaderNode(partition),
        write_txn_markers.WriteTxnMarkersRequest(markers=[marker]),
    )
    found = response_checks.single_item(
        response_checks.single_item(response.markers, "marker").topics, "topic"
    )
    refused.check(
        response_checks.single_item(found.partitions, "partition").error_code,
        str(partition),
    )

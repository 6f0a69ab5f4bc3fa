"""`transactions list|describe|hanging|abort`: transactions of coordinators, and open ones in partitions (KIP-664)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter, validators

from trimaran.cli import kafka_text, names
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, KafkaFormat, put, say, show_data, show_fields, show_rows
from trimaran.client import topic_partitions
from trimaran.client import transactions as client_transactions
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.runtime import clock
from trimaran.wire.identity import Offset, ProducerId, TopicPartition

# Kafka's transaction.max.timeout.ms: no coordinator leaves a transaction open for longer.
OLDEST_MINUTES = 15
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
    with brokers.connected() as client:
        rows = client_transactions.transaction_rows(
            client,
            states=state or (),
            producer_ids=producer_id or (),
            open_longer_than_ms=open_longer_than_ms,
            pattern=pattern,
        )
    show_rows(
        rows,
        output,
        columns=["id", "producer", "state", "coordinator"],
        noun="transactional id",
        kafka=lambda: kafka_text.transactions_list(rows),
    )


def describe(
    *transactional_ids: str, brokers: Brokers = BROKERS, output: KafkaFormat = "table"
) -> int:
    """Shows producer, state and partitions of transactional ids. Exit code 1 if one of several does not exist.

    Args:
        transactional_ids: The transactional ids; each may be a pattern, such as 'billing-*'. With several, JSON and
            YAML are a list.
    """
    names.ensure_named(transactional_ids, "transactional id", "described", listed_by="transactions")
    now_ms = clock.now_ms()
    with brokers.connected() as client:
        found, missing = names.each(
            names.expanded(
                transactional_ids,
                lambda: [row["id"] for row in client_transactions.transaction_rows(client)],
            ),
            lambda name: client_transactions.transaction_described(client, name, now_ms=now_ms),
        )
    if output == "kafka":
        for fields in found:
            put(kafka_text.transaction_description(fields, now_ms))
    elif not show_data(found if names.several(transactional_ids) else found[0], output):
        for number, fields in enumerate(found):
            if number:
                put()
            show_fields(fields, output)
    return names.end(missing)


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
        topic: Topics to check; each may be a pattern, such as 'orders-*'; by default all.
        older_than_minutes: Only transactions whose producer has written nothing for this long. Do not go below
            transaction.max.timeout.ms: younger ones may still be completed.
    """
    with brokers.connected() as client:
        rows = client_transactions.hanging_rows(
            client,
            names.expanded_topics(client, topic) if topic else None,
            older_than_ms=older_than_minutes * 60_000,
            now_ms=clock.now_ms(),
        )
    columns = ["topic", "partition", "start_offset", "producer", "epoch", "last_written_ms_ago"]
    show_rows(rows, output, columns=columns)
    return Exit.NO if rows else Exit.OK


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
        producer = client_transactions.open_producer(client, where, start_offset)
        if producer is None:
            raise UserError(
                f"there is no transaction to abort in {where}",
                f"no open transaction begins at offset {start_offset}",
                f"trimaran transactions hanging {topic} --older-than-minutes 0 lists those that are open",
                exit_code=Exit.NO,
            )
        if dry_run:
            say(f"would abort in {where}: producer {producer.producer_id}; nothing was changed")
            return
        client_transactions.abort_transaction(client, where, producer)
    say(f"aborted in {where}: producer {producer.producer_id}")

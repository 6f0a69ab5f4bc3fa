"""Exchanges of commands about transactions: with coordinators, and with leaders of partitions."""

from pathlib import Path

from tests.trimaran.client.answers import NOW_MS
from tests.trimaran.client.scripted import partition, told, topic
from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import transactions
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages import (
    describe_producers,
    describe_transactions,
    list_transactions,
    write_txn_markers,
)

case = Cases()
P0 = TopicPartition("t", 0)
ONE = topic("t", partition(0, 1, [1], [1]))


def test_exchanges_about_transactions_are_as_written():
    case.check(Path(__file__).parent / "testdata/transactions.txt")


def listed(*ones, code=0, unknown=()):
    states = [
        list_transactions.TransactionState(
            transactional_id=id_, producer_id=producer_id, transaction_state=state
        )
        for id_, producer_id, state in ones
    ]
    return list_transactions.ListTransactionsResponse(
        error_code=code, unknown_state_filters=list(unknown), transaction_states=states
    )


@case
def _transaction_rows():
    def of_all(client):
        return transactions.transaction_rows(client), client.refreshed

    def of_some(client):
        return transactions.transaction_rows(
            client, states=["Empty"], producer_ids=[7], open_longer_than_ms=0, pattern="a.*"
        )

    return exchanges(
        exchange(of_all, listed(("b", 7, "Empty")), listed(("a", 8, "Ongoing")), listed()),
        exchange(of_some, listed(), listed(), listed()),
        exchange(of_some, listed(unknown=["Emty", "Full"])),
        exchange(of_all, listed(), listed(code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)),
    )


def described(state="Ongoing", code=0, start_ms=NOW_MS - 7, partitions=(0, 2)):
    found = describe_transactions.TransactionState(
        error_code=code,
        transactional_id="g",
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=start_ms,
        producer_id=7,
        producer_epoch=3,
        topics=[describe_transactions.TopicData(topic="t", partitions=list(partitions))],
    )
    return describe_transactions.DescribeTransactionsResponse(transaction_states=[found])


@case
def _transaction_described():
    def describe(client):
        return transactions.transaction_described(client, "g", now_ms=NOW_MS)

    states = ["PrepareCommit", "PrepareAbort", "CompleteCommit"]
    unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    return exchanges(
        exchange(describe, described()),
        *(exchange(describe, described(state, start_ms=0)) for state in states),
        exchange(describe, described("Empty", start_ms=-1, partitions=())),
        exchange(describe, described(code=unknown)),
        exchange(describe, described(code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)),
        exchange(
            describe, describe_transactions.DescribeTransactionsResponse(transaction_states=[])
        ),
    )


def producer(producer_id, start_offset, last_ms=NOW_MS - 100, coordinator_epoch=5):
    return describe_producers.ProducerState(
        producer_id=producer_id,
        producer_epoch=2,
        last_timestamp=last_ms,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=start_offset,
    )


def produced(*producers, code=0):
    found = describe_producers.PartitionResponse(
        partition_index=0, error_code=code, active_producers=list(producers)
    )
    of_topic = describe_producers.TopicResponse(name="t", partitions=[found])
    return describe_producers.DescribeProducersResponse(topics=[of_topic])


@case
def _hanging_rows():
    def hanging(topics, older_than_ms=100):
        return lambda client: transactions.hanging_rows(
            client, topics, older_than_ms=older_than_ms, now_ms=NOW_MS
        )

    owned = [listed(("g", 7, "Ongoing")), listed(), listed()]
    nothing = [listed(), listed(), listed()]
    broken = topic("a", code=ErrorCode.LEADER_NOT_AVAILABLE)
    return exchanges(
        exchange(hanging(["t"]), told(ONE), produced(producer(7, 0)), *nothing),
        exchange(hanging(["t"]), told(ONE), produced(producer(7, 0)), *owned, described()),
        exchange(
            hanging(["t"]),
            *(told(ONE), produced(producer(7, 0)), *owned, described("CompleteAbort")),
        ),
        exchange(
            hanging(["t"]),
            *(told(ONE), produced(producer(7, 0)), *owned, described(partitions=[1])),
        ),
        exchange(hanging(["t"], 101), told(ONE), produced(producer(7, 0))),
        exchange(hanging(["t"]), told(ONE), produced(producer(7, -1))),
        exchange(hanging(None), told(ONE), produced(), topics=[ONE, broken]),
        exchange(hanging(["t"]), told(ONE), produced(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
    )


@case
def _open_producer():
    find = lambda client: transactions.open_producer(client, P0, 4)  # noqa: E731
    return exchanges(
        exchange(find, produced(producer(6, -1), producer(7, 4), producer(8, 5))),
        exchange(find, produced(producer(6, 3))),
    )


@case
def _abort_transaction():
    def answer(code=0):
        result = write_txn_markers.WritableTxnMarkerPartitionResult(
            partition_index=0, error_code=code
        )
        of_topic = write_txn_markers.WritableTxnMarkerTopicResult(name="t", partitions=[result])
        marker = write_txn_markers.WritableTxnMarkerResult(producer_id=7, topics=[of_topic])
        return write_txn_markers.WriteTxnMarkersResponse(markers=[marker])

    def abort(coordinator_epoch):
        found = producer(7, 4, coordinator_epoch=coordinator_epoch)
        return lambda client: transactions.abort_transaction(client, P0, found)

    return exchanges(
        exchange(abort(5), answer()),
        exchange(abort(-1), answer()),
        exchange(abort(5), answer(ErrorCode.INVALID_PRODUCER_EPOCH)),
    )

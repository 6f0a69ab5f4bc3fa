"""Exactly-once delivery against our own running brokers, without Spark: drivers die at each of their operations, and
zombies, time-outs and old checkpoints interfere with the decisions.
"""

import json
import logging
import threading
from collections import Counter
from contextlib import contextmanager
from itertools import count

import pyarrow as pa
import pytest

from tests.cluster.processes import LocalCluster
from trimaran.client.positions import Position
from trimaran.client.reader import PartitionReader
from trimaran.client.transactions import transaction_rows
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.exactly_once import pool, protocol
from trimaran.spark.sink.exactly_once.coordinator import TransactionCoordinators
from trimaran.spark.sink.exactly_once.decisions import decoded, topic_of
from trimaran.spark.sink.exactly_once.driver import SinkDriver, open_driver
from trimaran.spark.sink.exactly_once.task import write_prepared
from trimaran.spark.sink.options import CreatedTopics, SinkOptions
from trimaran.spark.sink.topics import create_topic
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

NUMBERS = count()
ROWS = 60
# Tasks of a micro-batch whose transactions are ended by several threads.
MANY = 30
# Operations of a driver from the start of a micro-batch of two tasks to its end.
OPERATIONS = 8


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    data = tmp_path_factory.mktemp("exactly-once")
    with LocalCluster(data, "--controllers", "1", "--brokers", "1") as made:
        yield made


class Died(Exception):
    """Raised when the driver is killed."""


class Mortal(SinkDriver):
    """A driver that dies before its operation of this number, or after it."""

    left = 0
    is_after = False

    def _carry_out(self, operation):
        # The operations of an `Each` are counted one by one.
        if isinstance(operation, protocol.Each):
            return super()._carry_out(operation)
        return self._counted(lambda: super(Mortal, self)._carry_out(operation))

    def _carry_out_at(self, coordinators, operation):
        return self._counted(lambda: super(Mortal, self)._carry_out_at(coordinators, operation))

    def _counted(self, carry_out):
        self.left -= 1
        if self.left < 0 and not self.is_after:
            raise Died
        result = carry_out()
        if self.left < 0:
            raise Died
        return result


class Query:
    """A query as Spark runs it: micro-batches of `ROWS` numbers, each cut into tasks."""

    def __init__(self, cluster, *, name=None, **options):
        self.name = name or f"copy{next(NUMBERS)}"
        self.bootstrap = cluster.bootstrap
        given = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "topic": self.name,
            "createTopics.partitions": "2",
            "deliveryGuarantee": "exactly_once",
            "transactionalIdPrefix": self.name,
            **{name.replace("__", "."): value for name, value in options.items()},
        }
        self.options = SinkOptions.parse(given, streaming=True)

    def begin(self):
        with open_driver(self.options) as driver:
            return driver.begin()

    def tasks(self, begun, batch, cuts, query="query"):
        values = [b"%d" % number for number in range(ROWS * batch, ROWS * (batch + 1))]
        for cut in range(cuts):
            rows = pa.record_batch({"value": pa.array(values[cut::cuts], pa.binary())})
            yield write_prepared(self.options, begun, query, batch, iter([rows]))

    def commit(self, outcomes, batch, query="query", driver=None):
        if outcomes[0].is_skipped:
            return
        transactions = [outcome.transaction for outcome in outcomes if outcome.transaction]
        if driver is not None:
            driver.commit(outcomes[0].lease, query, batch, transactions)
            return
        with open_driver(self.options) as opened:
            opened.commit(outcomes[0].lease, query, batch, transactions)

    def abort(self, outcomes, batch):
        with open_driver(self.options) as driver:
            transactions = [outcome.transaction for outcome in outcomes]
            driver.abort(outcomes[0].lease, "query", batch, transactions)

    def run(self, batch, cuts=2):
        outcomes = list(self.tasks(self.begin(), batch, cuts))
        self.commit(outcomes, batch)
        return outcomes

    def prepared(self, batch, cuts=2):
        return list(self.tasks(self.begin(), batch, cuts))

    def decide(self, outcomes, batch):
        """Decides a micro-batch, and dies before it commits the first transaction."""
        with self.options.cluster.client() as client:
            driver = Mortal(client, self.options, self.options.exactly_once)
            driver.left, driver.is_after = 1, True
            with pytest.raises(Died):
                self.commit(outcomes, batch, driver=driver)

    def take(self, outcome):
        """Aborts the transaction of a task, as its time-out or an operator does."""
        with self.options.cluster.client() as client:
            coordinators = TransactionCoordinators(client, topic_of(self.name))
            coordinators.take(outcome.transaction.transactional_id, 60_000)

    def written(self):
        with BlockingClient(self.bootstrap) as client:
            reader = PartitionReader(
                client, [TopicPartition(self.name, index) for index in (0, 1)], is_committed=True
            )
            start = Position(offset=Offset(0))
            return sorted(int(r.value) for _, r in reader.records(start, exit_at_end=True))

    def open_transactions(self):
        with BlockingClient(self.bootstrap) as client:
            rows = transaction_rows(client, states=["Ongoing"])
        return [row["id"] for row in rows if row["id"].startswith(self.name)]


def expected(batches):
    return list(range(ROWS * batches))


def run_until_death(query, operations, *, is_after):
    """Runs micro-batch 1 until the driver has carried out this number of operations; returns whether it died."""
    with query.options.cluster.client() as client:
        driver = Mortal(client, query.options, query.options.exactly_once)
        driver.left, driver.is_after = operations, is_after
        try:
            outcomes = list(query.tasks(driver.begin(), 1, 2))
            query.commit(outcomes, 1, driver=driver)
        except Died:
            return True
    return False


def test_driver_may_die_at_each_operation(cluster):
    died = 0
    # A death after an operation equals one before the next: the driver only computes in between.
    for operations, is_after in ((0, False), *((number, True) for number in range(OPERATIONS + 1))):
        query = Query(cluster)
        query.run(0)
        died += run_until_death(query, operations, is_after=is_after)
        query.run(1, cuts=3)  # repeated, and divided differently
        query.run(2)
        assert query.written() == expected(3), (operations, is_after)
        assert query.open_transactions() == []
    assert died == 1 + OPERATIONS


class Watched(SinkDriver):
    """A driver that notes how many operations run at a time."""

    def __init__(self, *given):
        super().__init__(*given)
        self.threads = set()
        self.lock = threading.Lock()
        self.now = self.most = 0

    def _carry_out_at(self, coordinators, operation):
        with self.lock:
            self.threads.add(threading.get_ident())
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            return super()._carry_out_at(coordinators, operation)
        finally:
            with self.lock:
                self.now -= 1


class Creating(BlockingClient):
    """A client during whose first request about it the topic `late` is created."""

    is_created = False

    def _ask(self, step, deadline):
        answer = super()._ask(step, deadline)
        if isinstance(step.request, AddPartitionsToTxnRequest) and not self.is_created:
            self.is_created = True
            create_topic(self, "late", CreatedTopics(1, -1))
        return answer


def test_topic_that_a_coordinator_learns_late_is_added(cluster):
    late = TopicPartition("late", 0)
    with Creating(cluster.bootstrap) as client:
        coordinators = TransactionCoordinators(client, late)
        transaction = protocol.Prepared("of-late", coordinators.take("of-late", 60_000))
        coordinators.add_partitions(transaction, [late])
        assert client.is_created
        assert coordinators.open_transactions(["of-late"]) == [transaction]
        assert coordinators.end(transaction, is_commit=False) is protocol.Ending.ENDED


def test_transactions_are_ended_in_parallel(cluster):
    query = Query(cluster)
    outcomes = query.prepared(0, cuts=MANY)
    with query.options.cluster.client() as client:
        driver = Watched(client, query.options, query.options.exactly_once)
        query.commit(outcomes, 0, driver=driver)
    assert 1 < driver.most <= len(driver.threads) == min(pool.AT_ONCE, MANY // pool.SHARE)
    assert query.written() == expected(1)
    assert query.open_transactions() == []


def counted_requests(monkeypatch):
    """Returns the number of requests by name, of all clients from now on."""
    counts, ask = Counter(), BlockingClient._ask

    def count_and_ask(client, step, deadline):
        counts[type(step.request).__name__.removesuffix("Request")] += 1
        return ask(client, step, deadline)

    monkeypatch.setattr(BlockingClient, "_ask", count_and_ask)
    return counts


def assert_few(counts):
    """Asserts that two requests found coordinators and one described; a coordinator that was not ready causes a
    repetition.
    """
    assert 2 <= counts["FindCoordinator"] <= MANY / 4
    assert 1 <= counts["DescribeTransactions"] <= MANY / 4


def test_many_transactions_are_found_by_one_request(cluster, monkeypatch):
    query = Query(cluster)
    outcomes = query.prepared(0, cuts=MANY)
    counts = counted_requests(monkeypatch)
    query.commit(outcomes, 0)
    # EndTxn: the decision, its end mark, and each transaction. The driver's own coordinator is found separately.
    assert counts["EndTxn"] == MANY + 2
    assert_few(counts)
    query.prepared(1, cuts=MANY)
    counts.clear()
    assert query.begin().decision.batch == 0  # finds and fences open transactions
    assert query.open_transactions() == []
    assert_few(counts)


class Closing:
    """A cluster that notifies when the first of its clients is closed."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.has_closed = threading.Event()

    @contextmanager
    def client(self):
        with self.cluster.client() as client:
            yield client
        self.has_closed.set()


def test_error_of_one_of_many_ends_the_others(cluster):
    query = Query(cluster)
    watched = Closing(query.options.cluster)
    begun = []

    def refuse(_, number):
        begun.append(number)
        if not number:
            raise VersionMismatch("too old")
        watched.has_closed.wait()  # the thread of the error has ended

    with query.options.cluster.client() as client:
        own = TransactionCoordinators(client, topic_of(query.name))
        with pytest.raises(VersionMismatch, match="too old"):
            pool.CoordinatorPool(watched, own).map(refuse, range(1000))
    assert max(begun) < pool.AT_ONCE  # thread N begins with item N


def test_driver_may_die_among_many_transactions(cluster):
    query = Query(cluster)
    outcomes = query.prepared(0, cuts=MANY)
    with query.options.cluster.client() as client:
        driver = Mortal(client, query.options, query.options.exactly_once)
        driver.left, driver.is_after = 2 + MANY // 3, True
        with pytest.raises(Died):
            query.commit(outcomes, 0, driver=driver)
    assert 0 < len(query.open_transactions()) < MANY
    assert query.run(0)[0].is_skipped
    assert query.written() == expected(1)
    assert query.open_transactions() == []


def test_repeated_batch_that_is_decided_writes_nothing(cluster):
    query = Query(cluster)
    query.decide(query.prepared(0), 0)
    assert query.written() == []
    outcomes = query.run(0, cuts=5)
    assert [outcome.is_skipped for outcome in outcomes] == [True] * 5
    assert query.written() == expected(1)


def test_undecided_transactions_are_aborted_at_the_next_start(cluster):
    query = Query(cluster)
    query.prepared(0)
    assert len(query.open_transactions()) == 2
    query.begin()
    assert query.open_transactions() == []
    assert query.written() == []


def test_failed_batch_is_aborted_unless_it_is_decided(cluster):
    query = Query(cluster)
    failed = query.prepared(0)
    query.abort(failed, 0)
    assert query.open_transactions() == []
    decided = query.prepared(0)
    query.decide(decided, 0)
    query.abort(decided, 0)
    assert len(query.open_transactions()) == 2
    query.begin()
    assert query.written() == expected(1)


def test_replaced_driver_decides_nothing(cluster):
    query = Query(cluster)
    late = query.prepared(0)
    query.run(0, cuts=3)
    with pytest.raises(
        WriteFailed, match=r"micro-batch 0 was not written: .* or by a newer driver"
    ):
        query.commit(late, 0)
    with pytest.raises(WriteFailed, match="another driver has taken over"):
        query.commit([late[0]._replace(transaction=None)], 0)
    query.abort(late, 0)
    assert query.written() == expected(1)
    query.run(1)
    assert query.written() == expected(2)


def test_late_task_of_a_finished_batch_writes_nothing(cluster):
    query = Query(cluster)
    begun = query.begin()
    outcomes = list(query.tasks(begun, 0, 2))
    zombie = query.tasks(begun, 0, 2)
    next(zombie)
    query.commit(outcomes, 0)
    next(zombie)
    query.run(1)
    assert query.written() == expected(2)
    assert query.open_transactions() == []


def test_time_out_before_the_decision_repeats_the_batch(cluster):
    query = Query(cluster)
    outcomes = query.prepared(0)
    query.take(outcomes[1])
    with pytest.raises(
        WriteFailed, match=r"micro-batch 0 was not written: .*were aborted before they could be"
    ):
        query.commit(outcomes, 0)
    query.run(0)
    assert query.written() == expected(1)


def test_batch_lost_after_its_decision_is_repeated(cluster):
    query = Query(cluster)
    outcomes = query.prepared(0)
    query.decide(outcomes, 0)
    for outcome in outcomes:
        query.take(outcome)
    query.run(0)
    assert query.written() == expected(1)


def test_partly_lost_batch_fails_until_accepted(cluster):
    query = Query(cluster)
    outcomes = query.prepared(0)
    query.decide(outcomes, 0)
    query.take(outcomes[1])
    for _ in range(2):
        with pytest.raises(
            WriteFailed, match=r"micro-batch 0 is written in part.*acceptLostBatch=0"
        ):
            query.begin()
    again = Query(cluster, name=query.name, acceptLostBatch="0")
    again.run(1)
    kept = set(range(0, ROWS, 2)) | set(range(ROWS, 2 * ROWS))
    assert query.written() == sorted(kept)


def test_task_whose_transaction_is_taken_fails(cluster):
    query = Query(cluster)
    begun = query.begin()

    def rows():
        yield pa.record_batch({"value": pa.array([b"1"])})
        for name in query.open_transactions():
            with query.options.cluster.client() as client:
                TransactionCoordinators(client, topic_of(query.name)).take(name, 60_000)
        yield pa.record_batch({"value": pa.array([b"2"])})

    with pytest.raises(
        WriteFailed,
        match=r"transaction (of this task was fenced or timed out|was aborted meanwhile).*transaction.timeout.ms",
    ):
        write_prepared(query.options, begun, "query", 0, rows())
    assert query.open_transactions() == []


def test_task_that_fails_aborts_its_transaction(cluster):
    query = Query(cluster)
    begun = query.begin()
    names = []

    def rows():
        yield pa.record_batch({"value": pa.array([b"1"])})
        names.extend(query.open_transactions())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_prepared(query.options, begun, "query", 0, rows())
    assert query.open_transactions() == []
    assert query.written() == []
    # A batch that arrives now has an old epoch: the abort took a new one, and so does the next transaction.
    with query.options.cluster.client() as client:
        coordinators = TransactionCoordinators(client, topic_of(query.name))
        assert coordinators.take(names[0], 60_000).epoch == 2


def test_failed_decision_does_not_keep_transactions_open(cluster, monkeypatch):
    query = Query(cluster)
    outcomes = query.prepared(0)
    own = protocol.Prepared(f"{query.name}-driver", outcomes[0].lease)
    with query.options.cluster.client() as client:
        TransactionCoordinators(client, topic_of(query.name)).add_partitions(
            own, [topic_of(query.name)]
        )
    assert len(query.open_transactions()) == 3
    asked, ask = [], BlockingClient._ask

    def note_and_ask(client, step, deadline):
        if getattr(step.request, "transactional_id", "") == own.transactional_id:
            asked.append(type(step.request))
        return ask(client, step, deadline)

    monkeypatch.setattr(BlockingClient, "_ask", note_and_ask)
    query.abort(outcomes, 0)
    assert query.open_transactions() == []
    # Coordinators before transaction.version 2 fence who renews the lease of an open transaction.
    assert asked[:2] == [EndTxnRequest, InitProducerIdRequest]


def test_batch_without_rows_is_decided(cluster):
    query = Query(cluster)
    begun = query.begin()
    empty = write_prepared(query.options, begun, "query", 0, iter([]))
    assert empty.transaction is None
    query.commit([empty], 0)
    assert query.begin().decision == protocol.Decision("query", 0, (), is_finished=True)
    assert query.run(0)[0].is_skipped


@pytest.mark.parametrize(
    ("query_id", "batch", "message"),
    [
        ("query", 0, "micro-batch 0 is repeated, but 1 is written already"),
        ("query", 3, "micro-batch 3 follows 1"),
        ("other", 2, "micro-batch 2 is the first of query other here, and query query is known"),
    ],
)
def test_checkpoint_of_another_time_is_refused(cluster, query_id, batch, message):
    query = Query(cluster)
    query.run(0)
    query.run(1)
    with pytest.raises(WriteFailed, match=message):
        next(query.tasks(query.begin(), batch, 1, query=query_id))


def test_new_checkpoint_begins_anew(cluster):
    query = Query(cluster)
    query.run(0)
    outcomes = list(query.tasks(query.begin(), 0, 1, query="other"))
    query.commit(outcomes, 0, query="other")
    assert query.written() == sorted([*expected(1), *expected(1)])


def test_query_without_exactly_once_is_adopted(cluster):
    query = Query(cluster)
    with pytest.raises(
        WriteFailed, match=r"and nothing is known of earlier ones.*adoptCheckpoint=true"
    ):
        query.run(5)
    adopted = Query(cluster, name=query.name, adoptCheckpoint="true")
    adopted.run(5)
    assert query.written() == list(range(5 * ROWS, 6 * ROWS))
    query.run(6)


def test_time_out_beyond_that_of_brokers_is_refused(cluster):
    query = Query(cluster, kafka__transaction__timeout__ms="900001")
    with pytest.raises(
        WriteFailed, match=r"900001 is more than the brokers allow \(transaction.max.timeout.ms\)"
    ):
        query.begin()


def test_foreign_record_is_no_decision():
    decision = {"format": 1, "query": "q", "batch": 3, "state": "finished", "transactions": []}
    assert decoded(json.dumps(decision).encode(), "t").batch == 3
    for value in (b"", None, b"[]", b'{"format":1}', json.dumps({**decision, "state": 5}).encode()):
        with pytest.raises(WriteFailed, match="is not a decision"):
            decoded(value, "t")
    with pytest.raises(WriteFailed, match="decisions of format 2"):
        decoded(json.dumps({**decision, "format": 2}).encode(), "t")


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.ERROR)

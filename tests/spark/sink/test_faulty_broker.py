"""The sink on a broker that answers with errors, before or after it has carried out a request; and what is requested."""

import pyarrow as pa
import pytest

from tests.spark.sink.test_exactly_once import Query, expected
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.exactly_once import protocol
from trimaran.spark.sink.exactly_once.coordinator import TransactionCoordinators
from trimaran.spark.sink.exactly_once.decisions import CONFIGS, LAST_OFFSETS, topic_of
from trimaran.spark.sink.exactly_once.task import write_prepared
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.plain import write_plain
from trimaran.testing import EmbeddedKafka
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.errors import RequestTimedOut
from trimaran.wire.identity import ProducerEpoch, ProducerId

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(scope="module")
def node():
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def kafka(node):
    yield node
    node.faults.check_scripts()
    node.faults.clear()


def fail_decision(kafka, query, outcomes, batch):
    """Lets a newer driver take over after the decision is in the log, and before it is committed."""
    own = {"api": "EndTxn", "transactional_id": f"{query.name}-driver"}
    with (
        kafka.faults(**own, error="PRODUCER_FENCED"),
        pytest.raises(WriteFailed, match="another driver has taken over"),
    ):
        query.commit(outcomes, batch)


def test_uncommitted_decision_does_not_count(kafka):
    query = Query(kafka)
    fail_decision(kafka, query, query.prepared(0), 0)
    assert query.written() == []
    assert query.begin().decision is None
    query.run(0)
    assert query.written() == expected(1)
    assert query.open_transactions() == []


def test_decision_is_found_before_many_that_failed(kafka):
    query = Query(kafka)
    query.run(0)
    for _ in range(LAST_OFFSETS):  # each round writes a record and a marker
        fail_decision(kafka, query, query.prepared(1), 1)
    assert query.begin().decision.batch == 0
    query.run(1)
    assert query.written() == expected(2)


REPEATED = {
    "AddOffsetsToTxn": "COORDINATOR_NOT_AVAILABLE",
    "AddPartitionsToTxn": "CONCURRENT_TRANSACTIONS",
    "EndTxn": "NOT_COORDINATOR",
    "InitProducerId": "COORDINATOR_LOAD_IN_PROGRESS",
    "Produce": "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    "TxnOffsetCommit": "NOT_COORDINATOR",
}


def test_request_that_was_carried_out_is_repeated(kafka):
    query = Query(kafka)
    query.run(0)
    rules = [
        kafka.faults.add(api=api, error=error, applied=True, every=2)
        for api, error in REPEATED.items()
    ]
    query.run(1, cuts=3)
    assert all(rule.applied for rule in rules)
    assert query.written() == expected(2)
    assert query.open_transactions() == []


def test_mark_belongs_to_one_transaction_and_batch(kafka):
    query = Query(kafka)
    [outcome] = query.run(0, cuts=1)
    transaction = outcome.transaction
    with BlockingClient(kafka.bootstrap) as client:
        coordinators = TransactionCoordinators(client, topic_of(query.name))
        assert coordinators.is_marked(transaction, 0)
        assert not coordinators.is_marked(transaction, 1)
        later = transaction.lease._replace(epoch=ProducerEpoch(transaction.lease.epoch + 1))
        assert not coordinators.is_marked(transaction._replace(lease=later), 0)


def test_mark_of_an_open_transaction_is_awaited(kafka):
    query = Query(kafka)
    [outcome] = query.prepared(0, cuts=1)
    with BlockingClient(kafka.bootstrap, timeout=1) as client:
        coordinators = TransactionCoordinators(client, topic_of(query.name))
        with pytest.raises(RequestTimedOut, match="UNSTABLE_OFFSET_COMMIT"):
            coordinators.is_marked(outcome.transaction, 0)


def test_forgotten_transactions_are_lost_unless_marked(kafka):
    """A coordinator forgets ids. Only the mark then shows whether a transaction was committed."""
    query = Query(kafka)
    known = query.prepared(0)
    query.decide(known, 0)
    forgotten = {"api": "EndTxn", "transactional_id": f"{query.name}-task-*"}
    with kafka.faults(**forgotten, error="INVALID_PRODUCER_ID_MAPPING", applied=True):
        query.begin()  # committed, forgotten, and marked
    assert query.written() == expected(1)
    aborted = query.prepared(1)
    query.decide(aborted, 1)
    for outcome in aborted:
        query.take(outcome)
    with (
        kafka.faults(**forgotten, error="INVALID_PRODUCER_ID_MAPPING"),
        pytest.raises(WriteFailed, match=r"micro-batch 1 is written in part: .* 0 of them are"),
    ):
        query.begin()
    query.run(1)  # the coordinator has these ids again, with aborted transactions
    assert query.written() == expected(2)


def test_unknown_id_is_no_ended_transaction(kafka):
    lease = protocol.ProducerLease(ProducerId(10**6), ProducerEpoch(0))
    with BlockingClient(kafka.bootstrap) as client:
        coordinators = TransactionCoordinators(client, topic_of("never"))
        unknown = protocol.Prepared("never", lease)
        assert coordinators.end(unknown, is_commit=True) is protocol.Ending.UNKNOWN


def test_queries_with_similar_prefixes_are_separate(kafka):
    """A dot in a prefix matches only a dot."""
    other = Query(kafka, name="copy-a")
    prepared = other.prepared(0)
    Query(kafka, name="copy.a").begin()
    assert len(other.open_transactions()) == len(prepared)
    other.commit(prepared, 0)
    assert other.written() == expected(1)


def test_requests_are_those_of_the_options(kafka):
    given = {
        "kafka__transaction__timeout__ms": "54321",
        "kafka__request__timeout__ms": "12345",
        "createTopics__replication__factor": "1",
    }
    query = Query(kafka, **given)
    produced = kafka.observe(api="Produce")
    begun = kafka.observe(api="InitProducerId")
    created = kafka.observe(api="CreateTopics")
    query.run(0)
    assert {(r.request.acks, r.request.timeout_ms) for r in produced.seen} == {(-1, 12345)}
    assert {r.request.transaction_timeout_ms for r in begun.seen} == {54321}
    topics = {topic.name: topic for seen in created.seen for topic in seen.request.topics}
    decisions = topics[topic_of(query.name).topic]
    assert {config.name: config.value for config in decisions.configs} == CONFIGS
    assert (decisions.num_partitions, decisions.replication_factor) == (1, 1)


def arrow(values, **columns):
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})


def write(kafka, topic, batches, **options):
    given = {"kafka.bootstrap.servers": kafka.bootstrap, "topic": topic, **options}
    return write_plain(SinkOptions.parse(given, streaming=False), iter(batches))


@pytest.mark.parametrize(
    "error", ["DUPLICATE_SEQUENCE_NUMBER", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT"]
)
def test_batch_in_the_log_is_not_repeated(kafka, error):
    topic = kafka.create_topic(f"plain-{error.lower()}")
    rule = kafka.faults.add(api="Produce", topic=topic, error=error, applied=True, times=1)
    assert write(kafka, topic, [arrow([b"1", b"2"])]) == 2
    assert rule.applied == 1
    assert [record.value for record in kafka.records(topic)] == [b"1", b"2"]


def test_level_of_the_codec_is_used(kafka):
    values = [b"%d" % (number * number) for number in range(3000)]
    produced = kafka.observe(api="Produce")
    sizes = []
    for level in ("1", "9"):
        gzip = {"kafka.compression.type": "gzip", "kafka.compression.gzip.level": level}
        write(kafka, kafka.create_topic(f"plain-{level}"), [arrow(values)], **gzip)
        query = Query(kafka, **{name.replace(".", "__"): value for name, value in gzip.items()})
        write_prepared(query.options, query.begin(), "query", 0, iter([arrow(values)]))
        sizes.append([seen.frame_bytes for seen in produced.seen[-2:]])
    (plain_1, task_1), (plain_9, task_9) = sizes
    assert plain_9 < plain_1
    assert task_9 < task_1


def test_keys_choose_no_partition_if_ignored(kafka):
    topic = kafka.create_topic("ignored", partitions=3)
    rows = arrow([bytes(100)] * 90, key=pa.array([b"k"] * 90))
    options = {"kafka.batch.size": "1000", "kafka.partitioner.ignore.keys": "true"}
    write(kafka, topic, [rows], **options)
    assert {record.partition for record in kafka.records(topic)} == {0, 1, 2}


def test_rows_wait_for_others_as_long_as_linger(kafka):
    produced = kafka.observe(api="Produce")
    waiting = kafka.create_topic("waiting")
    write(kafka, waiting, [arrow([b"1"])] * 30, **{"kafka.linger.ms": "9223372036854775807"})
    assert len(produced.seen) == 1
    at_once = kafka.create_topic("at-once")

    def batches():
        yield arrow([b"1"])
        produced.wait_answered(2)
        yield arrow([b"2"])

    write(kafka, at_once, batches(), **{"kafka.linger.ms": "0"})
    assert len(produced.seen) == 3
    assert [len(kafka.records(topic)) for topic in (waiting, at_once)] == [30, 2]


def test_request_is_no_larger_than_its_limit(kafka):
    topic = kafka.create_topic("limited", partitions=20)
    produced = kafka.observe(api="Produce", topic=topic)
    partitions = pa.array([number % 20 for number in range(200)], pa.int32())
    rows = arrow([bytes(60)] * 200, partition=partitions)
    limit = {"kafka.max.request.size": "3000", "kafka.linger.ms": "1000000"}
    write(kafka, topic, [rows], **limit)
    sizes = [seen.frame_bytes for seen in produced.seen]
    assert 5 < len(sizes) < 20
    assert max(sizes) <= 3000 + 200  # the header of the request

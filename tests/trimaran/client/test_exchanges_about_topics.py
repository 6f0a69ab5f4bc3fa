"""Exchanges about topics, directories and the quorum, and of producers: each request with all its fields, each row with
all its columns, each error with its three lines and its exit code.
"""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.trimaran.client.answers import (
    LEADERS,
    NOW_MS,
    UUID,
    config,
    described_configs,
    listed,
)
from tests.trimaran.client.scripted import Client, S, T, told, topic
from tests.trimaran.client.transcripts import Cases, exchange, exchanges
from trimaran.client import (
    idempotent_producer,
    log_dirs,
    partitions,
    quorum,
    topic_partitions,
    topics,
)
from trimaran.client.bench import Producing, _send
from trimaran.client.idempotent_producer import IdempotentProducer
from trimaran.client.transactional_producer import TransactionalProducer
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, iter_records
from trimaran.wire.client.errors import ConnectionLost, RequestTimedOut, VersionMismatch
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages import (
    add_partitions_to_txn,
    describe_log_dirs,
    describe_quorum,
    describe_topic_partitions,
    end_txn,
    init_producer_id,
    list_partition_reassignments,
    produce,
)

case = Cases()


@pytest.fixture(autouse=True)
def _still_clock(monkeypatch):
    for module in (quorum,):
        monkeypatch.setattr(module, "now_ms", lambda: NOW_MS)
    monkeypatch.setattr(
        idempotent_producer, "time", SimpleNamespace(time_ns=lambda: NOW_MS * 1_000_000)
    )


def test_exchanges_about_topics_are_as_written():
    case.check(Path(__file__).parent / "testdata/topics.txt")


def directory(path, *replicas, code=0):
    parts = [
        describe_log_dirs.DescribeLogDirsPartition(
            partition_index=index, partition_size=size, offset_lag=lag, is_future_key=future
        )
        for index, size, lag, future in replicas
    ]
    topics_ = [describe_log_dirs.DescribeLogDirsTopic(name="t", partitions=parts)]
    return describe_log_dirs.DescribeLogDirsResult(
        error_code=code,
        log_dir=path,
        topics=topics_,
        total_bytes=100,
        usable_bytes=40,
        is_cordoned=bool(code),
    )


def log_dirs_told(*directories, code=0):
    return describe_log_dirs.DescribeLogDirsResponse(error_code=code, results=list(directories))


@case
def _log_dirs_of():
    whole = log_dirs_told(
        directory("/a", (0, 5, 1, False), (1, 6, 2, True)), directory("/b", code=56)
    )
    refused = log_dirs_told(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    def named(client):
        return log_dirs.log_dirs_of(client, 2, ["t", "u"], timeout=3), client.refreshed

    return exchanges(
        exchange(lambda client: log_dirs.log_dirs_of(client, 2), whole),
        exchange(named, log_dirs_told(), topics=[T]),
        exchange(lambda client: log_dirs.log_dirs_of(client, 2), refused),
    )


@case
def _replica_sizes():
    def sizes(client):
        return log_dirs.replica_sizes(client, "t", {3, 1, 2})

    denied = log_dirs_told(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    one = log_dirs_told(directory("/a", (0, 5, 0, False), (1, 6, 0, True)), directory("/b"))
    other = log_dirs_told(directory("/a", (0, 7, 0, False), (1, 8, 0, False)))
    return exchanges(
        exchange(sizes, one, RequestTimedOut("late"), other, topics=[T]),
        exchange(sizes, denied, ConnectionLost("gone"), other, topics=[T]),
    )


def page(*indexes, cursor=None, code=0):
    parts = [
        describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
            error_code=0,
            partition_index=index,
            leader_id=1 if index < 3 else -1,
            leader_epoch=10 + index,
            replica_nodes=[1, 2, 3][: index + 1],
            isr_nodes=[1],
            eligible_leader_replicas=[2],
            last_known_elr=[3],
            offline_replicas=[4],
        )
        for index in indexes
    ]
    of_topic = describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
        error_code=code, name="t", topic_id=UUID, is_internal=True, partitions=parts
    )
    following = None
    if cursor is not None:
        following = describe_topic_partitions.Cursor(topic_name="t", partition_index=cursor)
    return describe_topic_partitions.DescribeTopicPartitionsResponse(
        topics=[of_topic], next_cursor=following
    )


@case
def _topic_described():
    def describe(client):
        return topics.topic_described(client, "t")

    sizes = log_dirs_told(directory("/a", (0, 5, 0, False), (2, 6, 0, False)))
    settings = described_configs(config("b", "2", 1), config("a", "1"), config("c", None, 4))
    whole = [
        page(2, 0, cursor=3),
        page(3),
        listed(1, 2, 3, first=0),
        listed(7, 8, 9, first=0),
        sizes,
        settings,
    ]
    unknown = page(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return exchanges(
        exchange(describe, *whole, leaders=LEADERS, topics=[T]),
        exchange(describe, unknown),
        exchange(describe, page(), described_configs()),
        exchange(describe, VersionMismatch("old"), told(T), described_configs()),
    )


@case
def _moves_of():
    moving = list_partition_reassignments.OngoingPartitionReassignment(
        partition_index=2, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
    )
    of_topic = list_partition_reassignments.OngoingTopicReassignment(name="t", partitions=[moving])
    answer = list_partition_reassignments.ListPartitionReassignmentsResponse(
        error_message=None, topics=[of_topic]
    )
    refused = answer.replace(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    described = {"topic": "t", "partitions": [{"partition": 0}, {"partition": 2}]}
    return exchanges(
        exchange(lambda client: topics.moves_of(client, described), answer),
        exchange(lambda client: topics.moves_of(client, described), refused),
    )


@case
def _partitions_of():
    least = described_configs(config("min.insync.replicas", "2"))
    unknown = topic("u", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def of(topics_, *tests):
        return lambda client: partitions.partitions_of(client, topics_, tests)

    return exchanges(
        exchange(lambda client: partitions.topics_of(client, None), told()),
        exchange(lambda client: partitions.topics_of(client, ["s", "t"]), told()),
        exchange(of([T, S])),
        exchange(of([T], partitions.is_at_min_isr), least),
        exchange(of([T], partitions.is_under_min_isr), least),
        exchange(of([], partitions.is_at_min_isr)),
        exchange(of([unknown])),
    )


@case
def _leaders_of():
    denied = topic("t", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return exchanges(
        exchange(lambda client: topic_partitions.leaders_of(client, "t"), told(T)),
        exchange(lambda client: topic_partitions.leaders_of(client, "t", create=True), told(T)),
        exchange(lambda client: topic_partitions.leaders_of(client, "t"), told(denied)),
    )


@case
def _ensure_partitions_exist():
    def of(*wanted):
        return lambda _: topic_partitions.ensure_partitions_exist("t", wanted, 3)

    return exchanges(*(exchange(of(*offsets)) for offsets in ((0, 2), (), (3,), (0, -1))))


@case
def _ask_quorum():
    def replica(number, end, fetched_=-1, caught_up=-1, directory_id=bytes(16)):
        return describe_quorum.ReplicaState(
            replica_id=number,
            replica_directory_id=directory_id,
            log_end_offset=end,
            last_fetch_timestamp=fetched_,
            last_caught_up_timestamp=caught_up,
        )

    def answer(code=0, partition_code=0):
        data = describe_quorum.DescribeQuorumResponsePartitionData(
            partition_index=0,
            error_code=partition_code,
            leader_id=2,
            leader_epoch=5,
            high_watermark=90,
            current_voters=[
                replica(1, 80, NOW_MS - 5, NOW_MS - 7),
                replica(2, 100, NOW_MS + 9, 0, UUID),
                replica(3, 101),
            ],
            observers=[replica(9, 70)],
        )
        of_topic = describe_quorum.DescribeQuorumResponseTopicData(
            topic_name="__cluster_metadata", partitions=[data]
        )
        listener = describe_quorum.Listener(name="C", host="h", port=9)
        nodes = [describe_quorum.Node(node_id=2, listeners=[listener])]
        return describe_quorum.DescribeQuorumResponse(
            error_code=code, error_message="m", topics=[of_topic], nodes=nodes
        )

    def ask(client):
        return quorum.ask_quorum(client, 3.5)

    return exchanges(
        exchange(ask, answer()),
        exchange(ask, answer(code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),
        exchange(ask, answer(partition_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        exchange(ask, RequestTimedOut("late")),
        exchange(ask, VersionMismatch("old")),
        exchange(lambda _: quorum.replica_rows(*_rows_of(answer()))),
        exchange(lambda _: quorum.replica_rows(*_rows_of(answer(), current_voters=[]))),
    )


def _rows_of(answer, **changes):
    return answer.topics[0].partitions[0].replace(**changes), answer.nodes


# --- producers


def produced(code=0, message=None):
    result = produce.PartitionProduceResponse(
        index=1, error_code=code, base_offset=0, error_message=message
    )
    of_topic = produce.TopicProduceResponse(name="t", partition_responses=[result])
    return produce.ProduceResponse(responses=[of_topic])


def identity(code=0):
    return init_producer_id.InitProducerIdResponse(error_code=code, producer_id=7, producer_epoch=3)


def unpacked(client):
    """Returns the batches of produce requests; each request shows their fields in place of their bytes."""
    for _, request in client.asked:
        if isinstance(request, produce.ProduceRequest):
            (part,) = request.topic_data[0].partition_data
            (view,) = iter_batches(part.records)
            fields = ("producer_id", "producer_epoch", "base_sequence", "count")
            told_ = {name: getattr(view, name) for name in fields}
            told_["transactional"] = view.is_transactional
            told_["records"] = [
                (record.key, record.value, record.timestamp_ms) for record, _ in iter_records(view)
            ]
            part.records = told_


LINES = [(b"k", b"one"), (None, b"two")]


@case
def _idempotent_producer():
    def send(client, count):
        producer = IdempotentProducer(client, "t")
        try:
            for _ in range(count):
                producer.send(1, LINES)
        finally:
            unpacked(client)

    def at_the_last_sequence(client):
        producer = IdempotentProducer(client, "t")
        producer._sequences[1] = 0x7FFF_FFFF - 1
        producer.send(1, LINES)
        producer.send(1, LINES)
        unpacked(client)

    there = produced(ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    return exchanges(
        exchange(lambda client: send(client, 2), identity(), produced(), there),
        exchange(at_the_last_sequence, identity(), produced(), produced()),
        exchange(
            lambda client: send(client, 1), identity(), produced(ErrorCode.INVALID_RECORD, "m")
        ),
        exchange(lambda client: send(client, 1), identity(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)),
    )


def added(code=0):
    result = add_partitions_to_txn.AddPartitionsToTxnPartitionResult(
        partition_index=1, partition_error_code=code
    )
    of_topic = add_partitions_to_txn.AddPartitionsToTxnTopicResult(
        name="t", results_by_partition=[result]
    )
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[of_topic]
    )


@case
def _transactional_producer():
    def run(client, *, is_commit=True, count=1):
        producer = TransactionalProducer(client, "t", "tx")
        try:
            for _ in range(count):
                producer.send(1, LINES)
            producer.end(is_commit=is_commit)
        finally:
            unpacked(client)

    def twice(client):
        producer = TransactionalProducer(client, "t", "tx")
        with pytest.raises(KafkaError):
            producer.send(1, LINES)
        producer.send(1, LINES)
        unpacked(client)

    ended = end_txn.EndTxnResponse()
    refused = end_txn.EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
    fenced = ErrorCode.PRODUCER_FENCED
    aborting = lambda client: run(client, is_commit=False)  # noqa: E731
    return exchanges(
        exchange(
            lambda client: run(client, count=2), identity(), added(), produced(), produced(), ended
        ),
        exchange(aborting, identity(), added(), produced(), refused),
        exchange(run, identity(), added(fenced)),
        exchange(run, identity(fenced)),
        exchange(twice, identity(), added(fenced), added(), produced()),
        exchange(lambda client: run(client, count=0)),
    )


@case
def _produce_of_a_load():
    def send(client):
        from trimaran.log.codecs.compression import Compression

        producing = Producing("t", 3, 4, -1, Compression.NONE, 700)
        _send(client, producing, 1, build_batch([NewRecord(None, b"v", 5)]))
        unpacked(client)

    refused = produced(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    with pytest.raises(KafkaError, match="too large"):
        send(Client(refused))
    return exchange(send, produced())

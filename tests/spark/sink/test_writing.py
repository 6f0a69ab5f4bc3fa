"""Tasks of the sink against our own running brokers: placement, codecs, creation, refusals and a dying leader."""

import tracemalloc

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from pyspark.sql.types import StringType, StructField, StructType

from tests.cluster.processes import LocalCluster
from tests.librdkafka import AdminClient
from trimaran.client.partitioner import partition_of_key
from trimaran.client.positions import Position
from trimaran.client.reader import PartitionReader
from trimaran.log.codecs.compression import Compression
from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.origins.origin import DataUnreadable
from trimaran.spark.sink.exactly_once.coordinator import TransactionCoordinators
from trimaran.spark.sink.options import SinkOptions
from trimaran.spark.sink.plain import write_plain
from trimaran.spark.sink.topics import WrittenTopics
from trimaran.spark.sink.writer import stream_writer
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.identity import Offset, TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WAIT_SECONDS = 60
# Longer than a busy machine needs for a connection; the test waits as long.
COORDINATOR_SECONDS = 3


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    keys = ("auto.create.topics.enable=false", "transaction.state.log.replication.factor=3")
    options = [word for key in keys for word in ("--override", key)]
    data = tmp_path_factory.mktemp("sink")
    with LocalCluster(data, "--controllers", "1", "--brokers", "2", *options) as made:
        yield made


@pytest.fixture(scope="module")
def create(cluster):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def make(name, partitions, **config):
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 2, config=settings)
        admin.create_topics([topic])[name].result(WAIT_SECONDS)
        cluster.wait_for_topic(name)
        return name

    return make


def options_of(cluster, topic=None, **options):
    given = {name.replace("__", "."): value for name, value in options.items()}
    named = {} if topic is None else {"topic": topic}
    brokers = {"kafka.bootstrap.servers": cluster.bootstrap}
    return SinkOptions.parse({**brokers, **named, **given}, streaming=False)


def write(cluster, batches, topic=None, **options):
    return write_plain(options_of(cluster, topic, **options), iter(batches))


def read(cluster, topic, partitions):
    with BlockingClient(cluster.bootstrap) as client:
        chosen = [TopicPartition(topic, index) for index in range(partitions)]
        reader = PartitionReader(client, chosen, is_committed=True)
        return [
            (where.partition, record)
            for where, record in reader.records(Position(offset=Offset(0)), exit_at_end=True)
        ]


def rows(first, count, **columns):
    values = [b"%d" % i for i in range(first, first + count)]
    return pa.record_batch({"value": pa.array(values), **columns})


def values_of(found):
    return sorted(int(record.value) for _, record in found)


def test_rows_are_placed_like_those_of_java(cluster, create):
    topic = create("placed", 5)
    keys = [b"k%d" % (i % 40) for i in range(1000)]
    asked = pa.array([None] * 999 + [2], pa.int32())
    assert write(cluster, [rows(0, 1000, key=keys, partition=asked)], topic) == 1000
    found = read(cluster, topic, 5)
    assert values_of(found) == list(range(1000))
    for index, record in found:
        assert index == (2 if record.value == b"999" else partition_of_key(record.key, 5))


def test_rows_without_keys_fill_one_partition_after_another(cluster, create):
    topic = create("sticky", 4)
    batches = [rows(1000 * i, 1000) for i in range(8)]
    write(cluster, batches, topic, kafka__batch__size="2000", kafka__linger__ms="1000000")
    found = read(cluster, topic, 4)
    assert values_of(found) == list(range(8000))
    counts = [sum(index == p for index, _ in found) for p in range(4)]
    assert max(counts) - min(counts) < 300


@pytest.mark.parametrize("codec", list(Compression))
def test_each_codec_is_read_back(cluster, create, codec):
    topic = create(f"codec-{codec.name.lower()}", 2)
    name = codec.name.lower()
    batches = [rows(0, 500), rows(500, 500)]
    assert write(cluster, batches, topic, kafka__compression__type=name) == 1000
    assert values_of(read(cluster, topic, 2)) == list(range(1000))


def test_task_without_rows_writes_nothing(cluster):
    assert write(cluster, [], "none") == 0
    assert write(cluster, [rows(0, 0)], "none") == 0


def test_stream_reports_options_without_effect_once(cluster, create, caplog):
    given = {
        "kafka.bootstrap.servers": cluster.bootstrap,
        "topic": create("told", 1),
        "kafka.send.buffer.bytes": "7",
    }
    schema = StructType([StructField("value", StringType())])
    for begins in (True, False):
        writer = stream_writer(given, schema, begins=begins)
        assert len(caplog.messages) == (not begins)  # the driver itself reports nothing
        writer.write(iter([rows(0, 1)]))
    (told,) = caplog.messages
    assert "no effect of kafka.send.buffer.bytes" in told


def test_topics_of_a_column_are_created_on_request(cluster):
    topics = pa.array(["new-a", "new-b"] * 50)
    made = {"createTopics__partitions": "3", "createTopics__replication__factor": "2"}
    assert write(cluster, [rows(0, 100, topic=topics)], **made) == 100
    found = [read(cluster, name, 3) for name in ("new-a", "new-b")]
    assert [values_of(some) for some in found] == [list(range(first, 100, 2)) for first in (0, 1)]


def test_topic_that_does_not_exist_is_named(cluster):
    with (
        options_of(cluster).cluster.client() as client,
        pytest.raises(WriteFailed, match=r"topic none: UNKNOWN_TOPIC_OR_PARTITION: .* within 0 s"),
    ):
        WrittenTopics(client, None, block_seconds=0).find("none")


def test_topic_that_cannot_be_created_is_named(cluster):
    asked = {"createTopics__replication__factor": "7"}
    with pytest.raises(
        WriteFailed, match="topic many could not be created: INVALID_REPLICATION_FACTOR"
    ):
        write(cluster, [rows(0, 1)], "many", **asked)


def test_batch_that_is_too_large_is_split(cluster, create):
    topic = create("narrow", 1, max_message_bytes="3000")
    assert write(cluster, [rows(0, 5000)], topic) == 5000
    assert values_of(read(cluster, topic, 1)) == list(range(5000))


def test_record_that_is_too_large_is_named(cluster, create):
    topic = create("small", 1, max_message_bytes="3000")
    large = pa.record_batch({"value": pa.array([b"x" * 5000])})
    with pytest.raises(
        WriteFailed, match=r"topic small, partition 0: MESSAGE_TOO_LARGE.*raise max.message.bytes"
    ):
        write(cluster, [large], topic)
    with pytest.raises(
        WriteFailed,
        match=r"a record of 50\d\d bytes is larger than 4000 \(kafka.max.request.size\)",
    ):
        write(cluster, [large], topic, kafka__max__request__size="4000")


def test_record_that_the_topic_refuses_is_named(cluster, create):
    topic = create("compacted", 1, cleanup_policy="compact")
    keys = pa.array([b"k"] * 7 + [None] + [b"k"] * 2)
    with pytest.raises(
        WriteFailed, match=r"topic compacted, partition 0: INVALID_RECORD.*record 7: "
    ):
        write(cluster, [rows(0, 10, key=keys)], topic)


def test_partition_that_does_not_exist_is_named(cluster, create):
    topic = create("two", 2)
    asked = pa.array([0, 2], pa.int32())
    with pytest.raises(
        WriteFailed, match="topic two: a row asks for partition 2, and there are 2 partitions, key"
    ):
        write(cluster, [rows(0, 2, partition=asked, key=[b"a", b"b"])], topic)


def test_unreachable_brokers_are_named(cluster):
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "kafka.max.block.ms": "100"}
    with pytest.raises(DataUnreadable, match=r"127\.0\.0\.1:1"):
        write_plain(SinkOptions.parse(given, streaming=False), iter([rows(0, 1)]))


def test_missing_coordinator_is_explained(cluster):
    with (
        BlockingClient(cluster.bootstrap, timeout=COORDINATOR_SECONDS) as client,
        pytest.raises(WriteFailed, match=r"__transaction_state.*transaction.state.log.replication"),
    ):
        TransactionCoordinators(client, TopicPartition("marks", 0)).take("alone", 60_000)


def test_dying_leader_loses_and_repeats_nothing(cluster, create):
    topic = create("moved", 4)
    victim = min(cluster.brokers())

    def batches():
        yield rows(0, 2000)
        cluster.kill(victim)
        yield rows(2000, 2000)

    memory = {"kafka__buffer__memory": "5000", "kafka__batch__size": "500"}
    assert write_plain(options_of(cluster, topic, **memory), batches()) == 4000
    cluster.restart(victim)
    cluster.wait_for_topic(topic)
    assert values_of(read(cluster, topic, 4)) == list(range(4000))


def test_batches_of_many_partitions_stay_within_memory(cluster, create):
    topic = create("wide", 100)  # 8 KiB for each open batch
    given = rows(0, 2000, key=[b"%d" % (i % 700) for i in range(2000)])
    options = options_of(cluster, topic, kafka__buffer__memory=str(300_000))
    tracemalloc.start()
    try:
        assert write_plain(options, iter([given])) == 2000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 600_000
    assert values_of(read(cluster, topic, 100)) == list(range(2000))


def test_arrow_batch_beyond_the_memory_is_written(cluster, create):
    topic = create("beyond", 2)
    memory = {"kafka__buffer__memory": "1000", "kafka__batch__size": "500"}
    assert write(cluster, [rows(0, 500), rows(500, 500)], topic, **memory) == 1000
    assert values_of(read(cluster, topic, 2)) == list(range(1000))


def test_lost_leader_ends_a_write_in_time(cluster, create):
    topic = create("lost", 1)
    lone = {"kafka__delivery__timeout__ms": "0", "kafka__request__timeout__ms": "1000"}
    victims = sorted(cluster.brokers())

    def batches():
        yield rows(0, 1)
        for victim in victims:
            cluster.kill(victim)
        yield rows(1, 1)

    with pytest.raises(WriteFailed, match="topic lost, partition 0: not written within 0 s"):
        write_plain(options_of(cluster, topic, kafka__linger__ms="1000000", **lone), batches())
    for victim in victims:
        cluster.restart(victim)

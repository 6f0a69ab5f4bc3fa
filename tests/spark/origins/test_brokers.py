"""Our own running brokers as the origin, as real processes: bounds, times, a dying leader, and data that is deleted
meanwhile.
"""

import json
import logging
import pickle
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tests.cluster.processes import LocalCluster, until
from tests.librdkafka import AdminClient, Producer
from trimaran.spark.data_source.conditions import Conditions
from trimaran.spark.kafka_log.batches import read_batches
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.kafka_log.plan import plan_log
from trimaran.spark.kafka_log.records import read_records
from trimaran.spark.kafka_log.source import LogStreamReader, read_request_of
from trimaran.spark.options import OptionError
from trimaran.spark.origins.origin import DEFAULT_READING, DataUnreadable

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

WAIT_SECONDS = 60
COUNT = 900
STAMPS = [1_700_000_000_000 + 10 * i for i in range(COUNT)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    data = tmp_path_factory.mktemp("brokers")
    # The records have old timestamps: retention would delete them.
    kept = ("--override", "log.retention.ms=-1")
    with LocalCluster(data, "--controllers", "1", "--brokers", "3", *kept) as made:
        yield made


@pytest.fixture(scope="module")
def admin(cluster):
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def create(cluster, admin, name, partitions=3):
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(WAIT_SECONDS)
    cluster.wait_for_topic(name)


def produce(cluster, topic, *, count=COUNT, partitions=3, tag=b""):
    """Produces in batches of forty: all records arrive long before a batch would be sent by its delay."""
    settings = {"acks": "all", "batch.num.messages": 40, "linger.ms": 2000}
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
    for i in range(count):
        producer.produce(
            topic, tag + b"%d" % i, b"k", partition=i % partitions, timestamp=STAMPS[i]
        )
    assert producer.flush(WAIT_SECONDS) == 0


@pytest.fixture(scope="module")
def orders(cluster, admin):
    create(cluster, admin, "orders")
    produce(cluster, "orders")
    return "orders"


def options_of(cluster, **options):
    given = {"kafka.bootstrap.servers": cluster.bootstrap, "kafkaConsumer.pollTimeoutMs": "30000"}
    return LogOptions.parse({**given, **options})


def stream_of(cluster, **options):
    given = {"kafka.bootstrap.servers": cluster.bootstrap, **options}
    parsed = LogOptions.parse(given, streaming=True)
    return LogStreamReader(parsed, read_request_of(parsed, ("value",)))


def read(cluster, columns=("partition", "offset", "value"), **options):
    parsed = options_of(cluster, **options)
    tasks = pickle.loads(pickle.dumps(plan_log(parsed).tasks))
    return rows_of(tasks, read_request_of(parsed, columns))


def rows_of(tasks, wanted, reader=read_records):
    return [tuple(row.values()) for t in tasks for b in reader(t, wanted) for row in b.to_pylist()]


def all_rows(count=COUNT, partitions=3, tag=b""):
    return sorted((i % partitions, i // partitions, tag + b"%d" % i) for i in range(count))


@pytest.mark.parametrize(
    "options", [{}, {"minPartitions": "8"}, {"kafka.max.partition.fetch.bytes": "100"}]
)
def test_every_record_is_read_once(cluster, orders, options):
    """This holds even if no batch fits the size of a response."""
    assert read(cluster, subscribe=orders, **options) == all_rows()


def test_partition_is_split_into_more_tasks(cluster, orders):
    tasks = plan_log(options_of(cluster, subscribe=orders, minPartitions="8")).tasks
    assert 8 <= len(tasks) <= 9
    assert all(len(task.ranges) == 1 for task in tasks)


def test_tasks_are_shared_by_offsets_of_partitions(cluster, orders):
    starts = json.dumps({"orders": {"0": 0, "1": 200, "2": 290}})  # 300, 100 and 10 offsets
    options = options_of(cluster, subscribe=orders, minPartitions="8", startingOffsets=starts)
    parts = [piece.key.partition for task in plan_log(options).tasks for piece in task.ranges]
    assert Counter(parts) == {0: 6, 1: 2, 2: 1}


def test_small_partitions_share_a_task(cluster, admin):
    create(cluster, admin, "many", 30)
    produce(cluster, "many", partitions=30)
    [task] = plan_log(options_of(cluster, subscribe="many")).tasks
    assert len(task.ranges) == 30
    assert all(300 < piece.size < 1000 for piece in task.ranges)  # 30 records of a dozen bytes
    for wanted in (4, 7, 30):
        tasks = plan_log(options_of(cluster, subscribe="many", minPartitions=str(wanted))).tasks
        assert wanted <= len(tasks) <= 30
        assert sorted(piece.key.partition for t in tasks for piece in t.ranges) == list(range(30))
    assert sorted(read(cluster, subscribe="many")) == all_rows(partitions=30)


def test_conditions_reduce_what_brokers_send(cluster, orders):
    options = options_of(cluster, subscribe=orders)

    def planned(*trees):
        return plan_log(options, Conditions.parse(json.dumps(trees), "records"))

    one = ["EqualTo", "partition", 1]
    plan = planned(one, ["GreaterThanOrEqual", "timestamp", {"us": STAMPS[700] * 1000}])
    assert plan.summary.startswith("topics 1 of ")
    assert plan.summary.endswith(", offsets 67 of 300")
    [[piece]] = [task.ranges for task in plan.tasks]
    assert (piece.start_offset, piece.end_offset) == (233, 300)
    assert planned(one, ["GreaterThan", "timestamp", {"us": STAMPS[-1] * 1000}]).tasks == []
    tasks = planned(one, ["GreaterThan", "timestamp", {"us": -1_000_000}]).tasks
    [[piece]] = [task.ranges for task in tasks]
    assert (piece.start_offset, piece.end_offset) == (0, 300)


def test_offsets_and_times_bound_the_read(cluster, orders):
    by_offset = {
        "startingOffsets": '{"orders":{"0":5,"1":-2,"2":299}}',
        "endingOffsets": '{"orders":{"0":7,"1":1,"2":-1}}',
    }
    found = [row[:2] for row in read(cluster, subscribe=orders, **by_offset)]
    assert found == [(0, 5), (0, 6), (1, 0), (2, 299)]
    by_time = {"startingTimestamp": str(STAMPS[890] - 5), "endingTimestamp": str(STAMPS[893])}
    values = sorted(row[2] for row in read(cluster, subscribe=orders, **by_time))
    assert values == [b"890", b"891", b"892"]
    with pytest.raises(OptionError, match=r"no record of .* or later"):
        read(cluster, subscribe=orders, startingTimestamp=str(STAMPS[-1] + 1))
    late = {
        "startingTimestamp": str(STAMPS[-1] + 1),
        "startingOffsetsByTimestampStrategy": "latest",
    }
    assert read(cluster, subscribe=orders, **late) == []


def test_batches_from_brokers_have_no_position(cluster, orders):
    [row] = read(
        cluster,
        ("file", "position", "log_dir", "record_count", "compression"),
        subscribe=orders,
        startingOffsets='{"orders":{"0":5,"1":300,"2":300}}',
        endingOffsets='{"orders":{"0":6,"1":300,"2":300}}',
    )
    assert row[0] == f"{cluster.bootstrap}/orders-0"
    assert row[1:3] == (None, None)
    assert row[3] > 1
    assert row[4] == "none"


def test_read_survives_death_of_leader(cluster, admin):
    create(cluster, admin, "failing", 1)
    produce(cluster, "failing", partitions=1)
    options = options_of(
        cluster, **{"subscribe": "failing", "kafka.max.partition.fetch.bytes": "1000"}
    )
    [task] = plan_log(options).tasks
    ranges = iter(task)
    reading = next(ranges).batches(read_request_of(options, ()).reading)
    batches = [next(reading).batch for _ in range(2)]
    leader = cluster.partitions("failing")[0]["leader"]
    cluster.kill(leader)
    batches += [located.batch for located in reading]
    offsets = [o for b in batches for o in range(b.base_offset, b.next_offset)]
    assert offsets == list(range(COUNT))
    assert len(batches) > 5
    cluster.restart(leader)
    cluster.wait_for_topic("failing")


def test_deletion_between_plan_and_read_is_reported(cluster, admin, caplog):
    create(cluster, admin, "trimmed", 1)
    produce(cluster, "trimmed", partitions=1)
    for fail in ("true", "false"):
        options = options_of(cluster, subscribe="trimmed", failOnDataLoss=fail)
        tasks = plan_log(options).tasks
        wanted = read_request_of(options, ("offset",))
        start = {"true": 100, "false": 250}[fail]
        place = TopicPartition("trimmed", 0, start)
        admin.delete_records([place])[place].result(WAIT_SECONDS)
        if fail == "true":
            with pytest.raises(DataUnreadable, match="offsets 0 to 99 were deleted"):
                rows_of(tasks, wanted)
        else:
            with caplog.at_level(logging.WARNING):
                assert rows_of(tasks, wanted) == [(o,) for o in range(250, COUNT)]
            assert "offsets 100 to 249 were deleted" in caplog.text
            for planned in (tasks, plan_log(options).tasks):
                counts = rows_of(planned, read_request_of(options, ("record_count",)), read_batches)
                assert sum(count for (count,) in counts) == COUNT - 250


def create_again(cluster, admin, topic):
    admin.delete_topics([topic])[topic].result(WAIT_SECONDS)
    until(lambda: topic not in admin.list_topics(timeout=WAIT_SECONDS).topics, "the topic is gone")
    create(cluster, admin, topic, 1)
    produce(cluster, topic, partitions=1, tag=b"new")


def test_recreated_topic_is_not_taken_for_old_one(cluster, admin, caplog):
    create(cluster, admin, "again", 1)
    produce(cluster, "again", partitions=1)
    options = options_of(cluster, subscribe="again")
    tasks = plan_log(options).tasks
    create_again(cluster, admin, "again")
    with pytest.raises(DataUnreadable, match="created again"):
        rows_of(tasks, read_request_of(options, ("offset",)))
    lenient = options_of(cluster, subscribe="again", failOnDataLoss="false")
    assert rows_of(tasks, read_request_of(lenient, ("offset",))) == []
    assert "created again since the query was planned" in caplog.text


def test_topic_recreated_while_it_is_read_is_named(cluster, admin):
    create(cluster, admin, "replaced", 1)
    produce(cluster, "replaced", partitions=1)
    small = {"kafka.max.partition.fetch.bytes": "100"}  # a batch of each response
    options = options_of(cluster, subscribe="replaced", **small)
    [task] = plan_log(options).tasks
    batches = (found for piece in task for found in piece.batches(DEFAULT_READING))
    assert next(batches).batch.base_offset == 0
    create_again(cluster, admin, "replaced")
    with pytest.raises(DataUnreadable, match="deleted and created again since the query"):
        list(batches)


def test_stream_notices_that_its_topic_is_another(cluster, admin, caplog):
    create(cluster, admin, "streamed", 1)
    produce(cluster, "streamed", count=500, partitions=1)
    strict, lenient = (
        stream_of(cluster, subscribe="streamed", failOnDataLoss=f) for f in ("true", "false")
    )
    start = strict.initialOffset()
    (old,) = start.keys() - {"streamed"}
    assert old.startswith("streamed@")
    assert start == {"streamed": {"0": 500}, old: {}}
    planned = {"streamed": {"0": 100}, old: {}}, start
    create_again(cluster, admin, "streamed")
    with pytest.raises(DataUnreadable, match="streamed was deleted and created again"):
        strict.latestOffset(start, ReadAllAvailable())
    with pytest.raises(DataUnreadable, match="offsets 100 to 499 of streamed-0 were not read"):
        strict.partitions(*planned)
    assert lenient.partitions(*planned) == []
    end = lenient.latestOffset(start, ReadAllAvailable())
    assert (end["streamed"], old in end) == ({"0": COUNT}, False)
    tasks = [partition.value for partition in lenient.partitions(start, end)]
    read = rows_of(tasks, read_request_of(options_of(cluster, subscribe="streamed"), ("value",)))
    assert read == [(b"new%d" % i,) for i in range(COUNT)]
    assert "the new one is read from its beginning" in caplog.text


def test_missing_data_is_reported(cluster):
    with pytest.raises(DataUnreadable, match="there is no absent"):
        read(cluster, subscribe="absent")
    nobody = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.default.api.timeout.ms": "500"}
    with pytest.raises(DataUnreadable, match=r"127\.0\.0\.1:1"):
        plan_log(LogOptions.parse({**nobody, "subscribe": "t"}))


def test_login_that_broker_lacks_is_refused(cluster):
    """TLS to a listener without it fails immediately, with a clear error."""
    with pytest.raises(DataUnreadable, match="TLS"):
        read(cluster, subscribe="orders", **{"kafka.security.protocol": "SSL"})
    with pytest.raises(OptionError, match="GSSAPI"):
        read(cluster, subscribe="orders", **{"kafka.security.protocol": "SASL_PLAINTEXT"})

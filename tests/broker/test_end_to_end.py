"""Third-party clients against a real controller and real brokers, over sockets and disks."""

from __future__ import annotations

import asyncio  # noqa: TID251 - aiokafka, in a thread of its own
from collections.abc import Callable

import pytest
import trio

from tests.cluster.in_process import cluster
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DEADLINE_SECONDS = 60
PARTITIONS = 3
VALUE_COUNT = 300
VALUES = [b"value %d" % number for number in range(VALUE_COUNT)]


async def in_thread(function: Callable[..., object], *args: object) -> object:
    """Runs blocking clients in a thread; the cluster runs on this loop meanwhile."""
    with trio.fail_after(DEADLINE_SECONDS):
        return await trio.to_thread.run_sync(function, *args)


def produce(bootstrap, topic, values=VALUES, **settings):
    """Produces with confluent-kafka; returns (partition, offset) of every value."""
    from tests.librdkafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    places = {}

    def delivered(error, message):
        assert error is None, error
        places[message.value()] = (message.partition(), message.offset())

    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=delivered)
    assert producer.flush(DEADLINE_SECONDS) == 0
    return places


def consume(bootstrap, topic, count=VALUE_COUNT):
    """Consumes with confluent-kafka from the beginning; returns value to (partition, offset)."""
    from confluent_kafka import TopicPartition

    from tests.librdkafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found = {}
    while len(found) < count:
        for message in consumer.consume(count, 0.2):
            assert message.error() is None, message.error()
            found[message.value()] = (message.partition(), message.offset())
    consumer.close()
    return found


async def test_confluent_kafka_reads_its_own_records(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        bootstrap = running.bootstrap
        written = await in_thread(produce, bootstrap, "t")
        assert await in_thread(consume, bootstrap, "t") == written


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches(tmp_path, compression):
    async with cluster(tmp_path, num_partitions="3") as running:
        bootstrap = running.bootstrap
        settings = {"compression.type": compression, "linger.ms": 50}

        def write():
            return produce(bootstrap, "t", **settings)

        written = await in_thread(write)
        assert await in_thread(consume, bootstrap, "t") == written


@pytest.mark.parametrize("acks", ["0", "1", "all"])
async def test_acks(tmp_path, acks):
    async with cluster(tmp_path, num_partitions="3") as running:
        bootstrap = running.bootstrap

        def write():
            return produce(bootstrap, "t", acks=acks)

        await in_thread(write)
        assert set(await in_thread(consume, bootstrap, "t")) == set(VALUES)


def kafka_python(bootstrap):
    from tests.clients.kafka_python import KafkaConsumer, KafkaProducer, TopicPartition

    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    sent = [
        producer.send("t", value, partition=number % PARTITIONS)
        for number, value in enumerate(VALUES)
    ]
    written = {
        value: (place.partition, place.offset)
        for value, place in zip(VALUES, (item.get(DEADLINE_SECONDS) for item in sent), strict=True)
    }
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    partitions = [TopicPartition("t", index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    consumer.seek_to_beginning(*partitions)
    found = {}
    while len(found) < len(VALUES):
        for records in consumer.poll(200).values():
            found |= {record.value: (record.partition, record.offset) for record in records}
    consumer.close()
    return written, found


async def test_kafka_python_reads_its_own_records(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        written, found = await in_thread(kafka_python, running.bootstrap)
        assert found == written


async def aiokafka(bootstrap):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
    await producer.start()
    written = {}
    for number, value in enumerate(VALUES):
        place = await producer.send("t", value, partition=number % PARTITIONS)
        written[value] = place
    written = {value: await place for value, place in written.items()}
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    partitions = [TopicPartition("t", index) for index in range(PARTITIONS)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    found = {}
    while len(found) < len(VALUES):
        for records in (await consumer.getmany(timeout_ms=200)).values():
            found |= {record.value: (record.partition, record.offset) for record in records}
    await consumer.stop()
    return {value: (p.partition, p.offset) for value, p in written.items()}, found


async def test_aiokafka_reads_its_own_records(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        bootstrap = running.bootstrap
        written, found = await in_thread(lambda: asyncio.run(aiokafka(bootstrap)))
        assert found == written


async def test_an_idempotent_producer(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        bootstrap = running.bootstrap

        def write():
            return produce(bootstrap, "t", **{"enable.idempotence": True})

        written = await in_thread(write)
        assert sorted(offset for _, offset in written.values()) == sorted(
            list(range(100)) * PARTITIONS
        )


def admin(bootstrap):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import (
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        ResourceType,
    )

    from tests.librdkafka import AdminClient

    client = AdminClient({"bootstrap.servers": bootstrap})

    def wait(futures):
        return {key: future.result(DEADLINE_SECONDS) for key, future in futures.items()}

    wait(client.create_topics([NewTopic("t", PARTITIONS, 1), NewTopic("u", 1, 1)]))
    resource = ConfigResource(ResourceType.TOPIC, "t")
    resource.add_incremental_config(
        ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    )
    wait(client.incremental_alter_configs([resource]))
    wait(client.create_partitions([NewPartitions("u", 4)]))
    wait(client.delete_topics(["u"]))
    produce(bootstrap, "t")
    offsets = wait(
        client.list_offsets(
            {TopicPartition("t", index): OffsetSpec.latest() for index in range(PARTITIONS)}
        )
    )
    configs = wait(client.describe_configs([ConfigResource(ResourceType.TOPIC, "t")]))
    cluster = client.describe_cluster().result(DEADLINE_SECONDS)
    topics = client.list_topics(timeout=DEADLINE_SECONDS).topics
    return {
        "topics": sorted(topics),
        "ends": sorted(found.offset for found in offsets.values()),
        "retention": next(iter(configs.values()))["retention.ms"].value,
        "nodes": [node.id for node in cluster.nodes],
    }


async def test_administration(tmp_path):
    async with cluster(tmp_path) as running:
        assert await in_thread(admin, running.bootstrap) == {
            "topics": ["t"],
            "ends": [100, 100, 100],
            "retention": "12345",
            "nodes": [11],
        }


async def test_everything_is_there_after_a_restart(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        written = await in_thread(produce, running.bootstrap, "t")
        epoch = running.brokers[11].parts.lifecycle.epoch
        await running.stop(11)
        again = await running.start_broker(11)
        assert again.parts.storage.directories.metadata.previous_broker_epoch == epoch
        assert await in_thread(consume, running.bootstrap, "t") == written
        more = [b"more %d" % number for number in range(30)]
        assert len(await in_thread(produce, running.bootstrap, "t", more)) == 30


async def test_rolling_restart_loses_nothing(tmp_path):
    """A producer with acks=all runs during a rolling restart: every acknowledged record is at its offset on every
    replica.
    """
    async with cluster(
        tmp_path,
        brokers=3,
        num_partitions="3",
        default_replication_factor="3",
        min_insync_replicas="2",
    ) as running:
        places = dict(await in_thread(produce, running.bootstrap, "t"))
        for broker_id in (11, 12, 13):
            await running.stop(broker_id)
            rest = [b"while %d is away %d" % (broker_id, number) for number in range(60)]
            alive = next(broker for broker in running.brokers if broker != broker_id)
            bootstrap = f"127.0.0.1:{running.brokers[alive].addresses['PLAINTEXT'][1]}"
            places |= await in_thread(produce, bootstrap, "t", rest)
            await running.start_broker(broker_id)
            await running.seen(
                lambda image: all(
                    len(state.isr) == 3 for state in image.topics.by_name["t"].partitions.values()
                ),
                broker_id,
            )
        assert await in_thread(consume, running.bootstrap, "t", len(places)) == places
        for index in range(PARTITIONS):
            logs = [
                broker.parts.families.data.partitions.find(TopicPartition("t", index)).log
                for broker in running.brokers.values()
            ]
            contents = {log.read_bytes(0, 1 << 20, upto_offset=log.log_end_offset) for log in logs}
            assert len(contents) == 1, "P15"


async def test_registration_with_other_cluster_id_is_refused(tmp_path):
    from trimaran.broker.process.lifecycle import (
        BrokerIdentity,
        Lifecycle,
        LifecycleTimes,
        RegistrationRefused,
    )

    async with cluster(tmp_path) as running:
        controller = running.brokers[11].parts.controller
        stranger = BrokerIdentity(77, "another-cluster", (), (), None, (), -1)
        lifecycle = Lifecycle(controller, stranger, LifecycleTimes(), lambda: -1)
        with trio.fail_after(DEADLINE_SECONDS), pytest.raises(RegistrationRefused) as raised:
            await lifecycle.run()
        assert ErrorCode.INCONSISTENT_CLUSTER_ID.name in str(raised.value)

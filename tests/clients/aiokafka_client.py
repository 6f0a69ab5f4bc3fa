"""The adapter of aiokafka; its event loop runs in a separate thread."""

from __future__ import annotations

import asyncio  # noqa: TID251 - the client under test is made for it
import threading
import time
from contextlib import contextmanager
from importlib.metadata import version as version_of

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, for_code

from tests.clients.records import ANSWER_SECONDS, POLL_SECONDS, Place, Seen, Unsupported


def seen(record):
    return Seen(
        record.partition,
        record.offset,
        record.value,
        record.key,
        tuple(record.headers),
        record.timestamp,
    )


class EventLoop:
    """An asyncio loop in a thread; `run` waits for a coroutine in it."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def begin(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine):
        return self.begin(coroutine).result(2 * ANSWER_SECONDS)

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def poll(consumer):
    found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
    return [seen(record) for records in found.values() for record in records]


class AiokafkaMember:
    """A member, which `poll` starts: the start waits until the group's other members have joined again."""

    def __init__(self, loop, consumer):
        self._loop, self._consumer = loop, consumer
        self._starting = loop.begin(consumer.start())

    def poll(self):
        if not self._starting.done():
            return []
        self._starting.result()
        return self._loop.run(poll(self._consumer))

    def assignment(self):
        return {p.partition for p in self._consumer.assignment()}

    def commit(self):
        self._loop.run(self._consumer.commit())

    def leave(self):
        self._starting.cancel()
        self._loop.run(self._consumer.stop())


class Aiokafka:
    name = client = "aiokafka"
    version = version_of(name)
    produces_null_headers = False

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        self._loop = EventLoop()
        self._admin = self._loop.run(self._open_admin())

    async def _open_admin(self):
        admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
        await admin.start()
        return admin

    def close(self):
        self._loop.run(self._admin.close())
        self._loop.close()

    # --- produce and consume

    def produce(self, topic, records, *, acks="all", codec="none", idempotent=False):
        return self._loop.run(self._produce(topic, records, acks, codec, idempotent))

    async def _produce(self, topic, records, acks, codec, idempotent):
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms or None,
                )
                for record in records
            ]
            found = [await asyncio.wait_for(future, ANSWER_SECONDS) for future in futures]
        finally:
            await producer.stop()
        return [
            Place(r.partition, r.offset) if acks != 0 else Place(s.partition, -1)
            for r, s in zip(found, records, strict=True)
        ]

    async def _new_consumer(self, *topics, **settings):
        return AIOKafkaConsumer(
            *topics, bootstrap_servers=self._bootstrap, enable_auto_commit=False, **settings
        )

    def _with_consumer(self, use, **settings):
        async def run():
            consumer = await self._new_consumer(**settings)
            try:
                await consumer.start()
                return await use(consumer)
            finally:
                await consumer.stop()

        return self._loop.run(run())

    def transact(self, transactional_id, topic, outcomes, group):
        self._loop.run(self._transact(transactional_id, topic, outcomes, group))

    async def _transact(self, transactional_id, topic, outcomes, group):
        producer = AIOKafkaProducer(
            bootstrap_servers=self._bootstrap, transactional_id=transactional_id
        )
        await producer.start()
        try:
            for values, is_committed, offset in outcomes:
                await producer.begin_transaction()
                for value in values:
                    await producer.send_and_wait(topic, value=value, partition=0)
                await producer.send_offsets_to_transaction(
                    {TopicPartition(topic, 0): offset}, group
                )
                if is_committed:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    def read_committed(self, topic, start, count):
        return self.read(topic, start, count, isolation_level="read_committed")

    def read(self, topic, start, count, **settings):
        async def use(consumer):
            consumer.assign([TopicPartition(topic, partition) for partition in start])
            for partition, offset in start.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            found, deadline = [], time.monotonic() + ANSWER_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                found += await poll(consumer)
            return found

        return self._with_consumer(use, **settings)

    @contextmanager
    def member(self, group, topic):
        settings = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 200}
        consumer = self._loop.run(
            self._new_consumer(topic, group_id=group, auto_offset_reset="earliest", **settings)
        )
        member = AiokafkaMember(self._loop, consumer)
        try:
            yield member
        finally:
            member.leave()

    def committed(self, group, topic, partitions):
        async def ask(consumer):
            return [await consumer.committed(TopicPartition(topic, p)) for p in range(partitions)]

        return self._with_consumer(ask, group_id=group)

    # --- offsets

    def offset_at(self, topic, partition, timestamp_ms):
        where = TopicPartition(topic, partition)
        found = self._with_consumer(lambda c: c.offsets_for_times({where: timestamp_ms}))[where]
        return None if found is None else found.offset

    def ends(self, topic, partition):
        where = TopicPartition(topic, partition)

        async def ask(consumer):
            first = await consumer.beginning_offsets([where])
            last = await consumer.end_offsets([where])
            return first[where], last[where]

        return self._with_consumer(ask)

    # --- administration

    def create_topic(self, topic, partitions, configs):
        wanted = NewTopic(topic, partitions, 3, topic_configs=configs)
        answer = self._loop.run(self._admin.create_topics([wanted]))
        for _, code, *_ in answer.topic_errors:
            if code:
                raise for_code(code)

    def topics(self):
        return set(self._loop.run(self._admin.list_topics()))

    def replicas(self, topic):
        (found,) = self._loop.run(self._admin.describe_topics([topic]))
        return {p["partition"]: p["replicas"] for p in found["partitions"]}

    def config(self, topic, key):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (answer,) = self._loop.run(self._admin.describe_configs([resource]))
        ((code, _, _, _, entries),) = answer.resources
        assert code == 0
        return next(value for name, value, *_ in entries if name == key)

    def alter_config(self, topic, key, value):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        try:
            self._loop.run(self._admin.alter_configs([resource]))
        except IncompatibleBrokerVersion as error:
            raise Unsupported from error

    def create_partitions(self, topic, count):
        self._loop.run(self._admin.create_partitions({topic: NewPartitions(count)}))

    def delete_topic(self, topic):
        answer = self._loop.run(self._admin.delete_topics([topic]))
        for _, code in answer.topic_error_codes:
            if code:
                raise for_code(code)

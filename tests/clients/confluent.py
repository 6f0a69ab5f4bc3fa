"""The adapter of confluent-kafka, which uses librdkafka."""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial

from confluent_kafka import KafkaException, TopicPartition, libversion
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.clients.records import ANSWER_SECONDS, POLL_SECONDS, Place, Seen
from tests.librdkafka import AdminClient, Consumer, Producer


def seen(message):
    headers = tuple(message.headers() or ())
    return Seen(
        message.partition(),
        message.offset(),
        message.value(),
        message.key(),
        headers,
        message.timestamp()[1],
    )


class ConfluentMember:
    def __init__(self, consumer):
        self._consumer = consumer

    def poll(self):
        messages = self._consumer.consume(500, POLL_SECONDS)
        for message in messages:
            if message.error():
                raise KafkaException(message.error())
        return [seen(message) for message in messages]

    def assignment(self):
        return {p.partition for p in self._consumer.assignment()}

    def commit(self):
        self._consumer.commit(asynchronous=False)

    def leave(self):
        self._consumer.close()


class Confluent:
    name, client, version = "confluent", "librdkafka", libversion()[0]
    produces_null_headers = True

    def __init__(self, bootstrap):
        self._common = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._common)

    def close(self):
        del self._admin

    # --- produce and consume

    def produce(self, topic, records, *, acks="all", codec="none", idempotent=False):
        settings = {"acks": acks, "compression.type": codec, "enable.idempotence": idempotent}
        producer = Producer({**self._common, **settings, "linger.ms": 5})
        places, failed = {}, []

        def delivered(number, error, message):
            if error is not None:
                failed.append(error)
            places[number] = Place(message.partition(), message.offset() if acks != 0 else -1)

        for number, record in enumerate(records):
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                on_delivery=partial(delivered, number),
                timestamp=record.timestamp_ms,
                headers=list(record.headers),
            )
        assert producer.flush(ANSWER_SECONDS) == 0
        assert failed == []
        return [places[number] for number in range(len(records))]

    def transact(self, transactional_id, topic, outcomes, group):
        producer = Producer({**self._common, "transactional.id": transactional_id})
        producer.init_transactions(ANSWER_SECONDS)
        member = self._consumer(group)
        for values, is_committed, offset in outcomes:
            producer.begin_transaction()
            for value in values:
                producer.produce(topic, value=value, partition=0)
            offsets = [TopicPartition(topic, 0, offset)]
            producer.send_offsets_to_transaction(
                offsets, member.consumer_group_metadata(), ANSWER_SECONDS
            )
            if is_committed:
                producer.commit_transaction(ANSWER_SECONDS)
            else:
                producer.abort_transaction(ANSWER_SECONDS)
        member.close()

    def read_committed(self, topic, start, count):
        return self.read(topic, start, count)  # the client's default

    def _consumer(self, group, **settings):
        return Consumer(
            {**self._common, "group.id": group, "enable.auto.commit": False, **settings}
        )

    def read(self, topic, start, count):
        consumer = self._consumer("nobody")
        try:
            consumer.assign([TopicPartition(topic, p, offset) for p, offset in start.items()])
            found, deadline = [], time.monotonic() + ANSWER_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                found += ConfluentMember(consumer).poll()
            return found
        finally:
            consumer.close()

    @contextmanager
    def member(self, group, topic):
        settings = {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 200,
        }
        consumer = self._consumer(group, **settings)
        consumer.subscribe([topic])
        try:
            yield ConfluentMember(consumer)
        finally:
            consumer.close()

    def committed(self, group, topic, partitions):
        consumer = self._consumer(group)
        asked = [TopicPartition(topic, index) for index in range(partitions)]
        found = consumer.committed(asked, timeout=ANSWER_SECONDS)
        consumer.close()
        return [partition.offset for partition in found]

    # --- offsets

    def offset_at(self, topic, partition, timestamp_ms):
        consumer = self._consumer("nobody")
        asked = TopicPartition(topic, partition, timestamp_ms)
        (found,) = consumer.offsets_for_times([asked], timeout=ANSWER_SECONDS)
        consumer.close()
        return found.offset if found.offset >= 0 else None

    def ends(self, topic, partition):
        consumer = self._consumer("nobody")
        found = consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=ANSWER_SECONDS
        )
        consumer.close()
        return found

    # --- administration

    def create_topic(self, topic, partitions, configs):
        wanted = NewTopic(topic, partitions, 3, config=configs)
        self._admin.create_topics([wanted])[topic].result(ANSWER_SECONDS)

    def topics(self):
        return set(self._admin.list_topics(timeout=ANSWER_SECONDS).topics)

    def replicas(self, topic):
        found = self._admin.list_topics(topic, timeout=ANSWER_SECONDS).topics[topic]
        return {index: list(p.replicas) for index, p in found.partitions.items()}

    def config(self, topic, key):
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = self._admin.describe_configs([resource])[resource].result(ANSWER_SECONDS)
        return found[key].value

    def alter_config(self, topic, key, value):
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self._admin.incremental_alter_configs([resource])[resource].result(ANSWER_SECONDS)

    def create_partitions(self, topic, count):
        self._admin.create_partitions([NewPartitions(topic, count)])[topic].result(ANSWER_SECONDS)

    def delete_topic(self, topic):
        self._admin.delete_topics([topic])[topic].result(ANSWER_SECONDS)

"""The adapter of kafka-python."""

from __future__ import annotations

import queue
import socket
import threading
import time
import warnings
from contextlib import contextmanager, suppress
from importlib.metadata import version as version_of

from tests.clients.records import ANSWER_SECONDS, POLL_SECONDS, Place, Seen

with warnings.catch_warnings():  # kafka-python reads JSON files with a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import (
        KafkaAdminClient,
        KafkaConsumer,
        KafkaProducer,
        OffsetAndMetadata,
        TopicPartition,
    )
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.net.inet import KafkaNetSocket


class _Socket(socket.socket):
    """A socket that the collector closes without a warning: kafka-python 3.0.12 does not close sockets of refused or
    abandoned connections.
    """

    def __del__(self):
        self.close()


KafkaNetSocket.socket = lambda _self, *kind: _Socket(*kind)


def seen(record):
    headers = tuple(record.headers)
    return Seen(
        record.partition, record.offset, record.value, record.key, headers, record.timestamp
    )


def polled(consumer):
    found = consumer.poll(timeout_ms=POLL_SECONDS * 1000)
    return [seen(record) for records in found.values() for record in records]


class KafkaPythonMember:
    """A member that a separate thread polls continuously, as applications do: kafka-python 3.0.12 loses an assignment
    that arrives between two polls (it joins again when the task of the last join is done).
    """

    def __init__(self, consumer):
        self._consumer = consumer
        self._found = queue.SimpleQueue()
        self._turn = threading.Lock()  # only one thread at a time may use a consumer
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll_on, daemon=True)
        self._thread.start()

    def _poll_on(self):
        while not self._stopping.wait(0.001):  # other threads can use the consumer here
            with self._turn:
                for item in polled(self._consumer):
                    self._found.put(item)

    def poll(self):
        found = []
        with suppress(queue.Empty):
            found.append(self._found.get(timeout=POLL_SECONDS))
            while True:
                found.append(self._found.get_nowait())
        return found

    def assignment(self):
        with self._turn:
            return {p.partition for p in self._consumer.assignment()}

    def commit(self):
        with self._turn:
            self._consumer.commit()

    def leave(self):
        self._stopping.set()
        self._thread.join()
        self._consumer.close(autocommit=False)


class KafkaPython:
    name = client = "kafka-python"
    version = version_of(name)
    produces_null_headers = False

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap.split(",")
        self._admin = KafkaAdminClient(bootstrap_servers=self._bootstrap)

    def close(self):
        self._admin.close()

    # --- produce and consume

    def produce(self, topic, records, *, acks="all", codec="none", idempotent=False):
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks=acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms or None,
                )
                for record in records
            ]
            producer.flush(ANSWER_SECONDS)
            found = [future.get(ANSWER_SECONDS) for future in futures]
        finally:
            producer.close(ANSWER_SECONDS)
        return [Place(partition.partition, partition.offset) for partition in found]

    def _consumer(self, *topics, **settings):
        return KafkaConsumer(
            *topics, bootstrap_servers=self._bootstrap, enable_auto_commit=False, **settings
        )

    def transact(self, transactional_id, topic, outcomes, group):
        producer = KafkaProducer(
            bootstrap_servers=self._bootstrap, transactional_id=transactional_id
        )
        try:
            producer.init_transactions()
            for values, is_committed, offset in outcomes:
                producer.begin_transaction()
                for value in values:
                    producer.send(topic, value=value, partition=0)
                offsets = {TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}
                producer.send_offsets_to_transaction(offsets, group)
                if is_committed:
                    producer.commit_transaction()
                else:
                    producer.abort_transaction()
        finally:
            producer.close()

    def read_committed(self, topic, start, count):
        return self.read(topic, start, count, isolation_level="read_committed")

    def read(self, topic, start, count, **settings):
        consumer = self._consumer(**settings)
        try:
            consumer.assign([TopicPartition(topic, partition) for partition in start])
            for partition, offset in start.items():
                consumer.seek(TopicPartition(topic, partition), offset)
            found, deadline = [], time.monotonic() + ANSWER_SECONDS
            while len(found) < count and time.monotonic() < deadline:
                found += polled(consumer)
            return found
        finally:
            consumer.close()

    @contextmanager
    def member(self, group, topic):
        consumer = self._consumer(
            topic,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=200,
        )
        # Otherwise it would join again when it first learns of the topic.
        consumer.partitions_for_topic(topic)
        member = KafkaPythonMember(consumer)
        try:
            yield member
        finally:
            member.leave()

    def committed(self, group, topic, partitions):
        consumer = self._consumer(group_id=group)
        try:
            return [consumer.committed(TopicPartition(topic, p)) for p in range(partitions)]
        finally:
            consumer.close()

    # --- offsets

    def offset_at(self, topic, partition, timestamp_ms):
        consumer, where = self._consumer(), TopicPartition(topic, partition)
        try:
            found = consumer.offsets_for_times({where: timestamp_ms})[where]
        finally:
            consumer.close()
        return None if found is None else found.offset

    def ends(self, topic, partition):
        consumer, where = self._consumer(), TopicPartition(topic, partition)
        try:
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]
        finally:
            consumer.close()

    # --- administration

    def create_topic(self, topic, partitions, configs):
        wanted = {"num_partitions": partitions, "replication_factor": 3, "configs": configs}
        self._admin.create_topics({topic: wanted})

    def topics(self):
        return set(self._admin.list_topics())

    def replicas(self, topic):
        (found,) = self._admin.describe_topics([topic])
        return {p["partition_index"]: p["replica_nodes"] for p in found["partitions"]}

    def config(self, topic, key):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        found = self._admin.describe_configs([resource], config_filter="all")
        return found["topic"][topic][key]["value"]

    def alter_config(self, topic, key, value):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {key: value})
        assert self._admin.alter_configs([resource]) == {"topic": {topic: "OK"}}

    def create_partitions(self, topic, count):
        self._admin.create_partitions({topic: count})

    def delete_topic(self, topic):
        self._admin.delete_topics([topic])

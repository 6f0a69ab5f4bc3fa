"""A cluster's records, topics and offsets, read by a client that no application uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import ConfigResource, ConfigSource, NewTopic, ResourceType

from tests.cluster.processes import until
from tests.librdkafka import AdminClient, Consumer

CALL_SECONDS = 60
Record = tuple[str | None, bytes]


def _key_and_value(message: Message) -> Record:
    key = message.key()
    return None if key is None else key.decode(), message.value()


class Reader:
    """A read_committed reader of a topic; `records` are by partition and in order, as returned by `seen`."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        seen: Callable[[Message], Any] = _key_and_value,
        starts: Sequence[int] = (),
    ) -> None:
        self.records: list[list[Any]] = [[] for _ in range(partitions)]
        self._seen = seen
        self.ended: set[int] = set()  # the partitions that were read to their ends
        settings = {
            "group.id": "judge",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        self._consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
        self._consumer.assign(
            [
                TopicPartition(topic, index, starts[index] if starts else 0)
                for index in range(partitions)
            ]
        )

    @property
    def all(self) -> list[Any]:
        return [record for partition in self.records for record in partition]

    def poll(self) -> None:
        for message in self._consumer.consume(1000, 0.5):
            if message.error() is None:
                self.records[message.partition()].append(self._seen(message))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self.ended.add(message.partition())

    def read_until(self, is_enough: Callable[[], bool], what: str, seconds: float) -> None:
        """Reads until `is_enough`, and a little further, to find surplus records."""

        def read() -> bool:
            self.poll()
            return is_enough()

        until(read, what, seconds)
        for _ in range(3):
            self.poll()

    def close(self) -> None:
        self._consumer.close()


def create(bootstrap: str, topics: Iterable[NewTopic]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for done in admin.create_topics(list(topics)).values():
        done.result(CALL_SECONDS)


def topics(bootstrap: str) -> dict[str, int]:
    """Returns the number of partitions by topic, without internal topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.list_topics(timeout=CALL_SECONDS).topics
    return {
        name: len(topic.partitions) for name, topic in found.items() if not name.startswith("__")
    }


def is_whole(bootstrap: str) -> bool:
    """Whether all replicas of all partitions are in sync."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        found = admin.list_topics(timeout=CALL_SECONDS).topics
    except KafkaException:
        return False
    places = [place for topic in found.values() for place in topic.partitions.values()]
    return all(set(place.isrs) == set(place.replicas) for place in places)


def configs(bootstrap: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Returns the configs that were set on each topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in names])
    return {
        resource.name: {
            key: entry.value
            for key, entry in sorted(done.result(CALL_SECONDS).items())
            if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        }
        for resource, done in asked.items()
    }


def offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Returns the committed offsets of a group, by topic and partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (asked,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    found = asked.result(CALL_SECONDS).topic_partitions
    return {(partition.topic, partition.partition): partition.offset for partition in found}


def ends(bootstrap: str, topic: str, partitions: int) -> dict[tuple[str, int], int]:
    """Returns the last stable offset by topic and partition."""
    settings = {"group.id": "judge", "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    found = {
        (topic, index): consumer.get_watermark_offsets(TopicPartition(topic, index), CALL_SECONDS)[
            1
        ]
        for index in range(partitions)
    }
    consumer.close()
    return found

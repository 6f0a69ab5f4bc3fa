"""The bytes and records of each topic that this broker has received and sent, in plain integers.

Source: Kafka's `BrokerTopicStats`. Records that other topics' deletion made unreachable still count in `gone`, so what
all topics have together never goes down.
"""

from __future__ import annotations

from collections.abc import Iterator


class TopicTraffic:
    """Since this broker has replicas of the topic. Requests count once for each of their partitions, as in Kafka."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.messages_in = 0
        self.produces = 0
        self.failed_produces = 0
        self.fetches = 0
        self.failed_fetches = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: TopicTraffic) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The sums over all topics that have replicas here, and those that had."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()
        self.isr_shrinks = 0
        self.isr_expands = 0

    def of(self, topic: str) -> TopicTraffic:
        """The topic's counters, which stay the same object until `forget`."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def find(self, topic: str) -> TopicTraffic | None:
        """None for a topic that has no replica here: what clients ask for by wrong names is not kept."""
        return self._topics.get(topic)

    def forget(self, topic: str) -> None:
        """The last replica of the topic has left."""
        gone = self._topics.pop(topic, None)
        if gone is not None:
            self._gone.add(gone)

    def __iter__(self) -> Iterator[tuple[str, TopicTraffic]]:
        yield from sorted(self._topics.items())

    def total(self) -> TopicTraffic:
        total = TopicTraffic()
        total.add(self._gone)
        for topic in self._topics.values():
            total.add(topic)
        return total

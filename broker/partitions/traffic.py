"""The bytes and records that this broker has received and sent for each topic, in plain integers.

Source: Kafka's `BrokerTopicStats`. `_gone` keeps the counts of removed topics, so that the total over all topics never
decreases.
"""

from __future__ import annotations

from collections.abc import Iterator


class TopicTraffic:
    """The counters of a topic while this broker has replicas of it. As in Kafka, a request counts once for each of its
    partitions; a request of a share group counts once for each topic.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetches",
        "failed_produces",
        "failed_share_acknowledgements",
        "failed_share_fetches",
        "fetches",
        "messages_in",
        "produces",
        "replication_bytes_in",
        "replication_bytes_out",
        "share_acknowledgements",
        "share_fetches",
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
        self.share_fetches = 0
        self.failed_share_fetches = 0
        self.share_acknowledgements = 0
        self.failed_share_acknowledgements = 0

    def add(self, other: TopicTraffic) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Traffic:
    """The counters of topics with replicas on this broker, and the sum of removed topics."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicTraffic] = {}
        self._gone = TopicTraffic()
        self.isr_shrinks = 0
        self.isr_expands = 0

    def of(self, topic: str) -> TopicTraffic:
        """Returns the topic's counters; they remain the same object until `forget`."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTraffic()
        return found

    def find(self, topic: str) -> TopicTraffic | None:
        """Returns the topic's counters, or None if this broker has no replica of it: invalid names in requests are not
        counted.
        """
        return self._topics.get(topic)

    def forget(self, topic: str) -> None:
        """Removes a topic after its last replica has left this broker."""
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

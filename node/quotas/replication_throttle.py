"""The throttle of replication: the throttled replicas of a node, and the bytes per second that they may send, receive
or copy (KIP-73).

An excess is not compensated: replication pauses until the rate is below the bound again. Does no I/O. Source:
`ReplicationQuotaManager` of Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trimaran.node.config.config_def import LONG_MAX
from trimaran.wire.identity import NodeId, TopicPartition
from trimaran.wire.transport.metrics.rate import SimpleRate, Windows

# All partitions of a topic, written `*`.
ALL: Final = None


class ReplicationThrottle:
    """One direction of replication. `bound` is in bytes per second; time is in seconds of any monotonic clock."""

    def __init__(self, windows: Windows) -> None:
        self.bound: float = LONG_MAX
        self._rate = SimpleRate(windows)
        self._replicas: dict[str, frozenset[int] | None] = {}
        # Lists that `name_replicas` received and `holds` has not parsed yet, by topic.
        self._unread: dict[str, tuple[str, NodeId]] = {}

    @property
    def is_set(self) -> bool:
        """Returns whether any replica may be throttled; a list that has not been parsed counts."""
        return bool(self._replicas or self._unread)

    def name_replicas(self, topic: str, text: str, node_id: NodeId) -> None:
        """Sets the throttled replicas from a list that is parsed on first use: the longest takes 0.5 ms, and a snapshot
        of metadata has one for each topic.
        """
        self.set_replicas(topic, ())
        if text:
            self._unread[topic] = (text, node_id)

    def set_replicas(self, topic: str, partitions: Iterable[int] | None) -> None:
        """Replaces the throttled partitions of `topic`; ALL throttles every partition."""
        self._unread.pop(topic, None)
        chosen = None if partitions is None else frozenset(partitions)
        if chosen == frozenset():
            self._replicas.pop(topic, None)
        else:
            self._replicas[topic] = chosen

    def holds(self, replica: TopicPartition) -> bool:
        """Returns whether this replica is throttled."""
        topic, partition = replica
        if (unread := self._unread.get(topic)) is not None:
            self.set_replicas(topic, replicas_here(*unread))
        if topic not in self._replicas:
            return False
        partitions = self._replicas[topic]
        return partitions is ALL or partition in partitions

    def record(self, size: int, now: float) -> None:
        """Counts bytes of throttled replicas, including in-sync replicas, which are never delayed."""
        self._rate.record(size, now)

    def rate(self, now: float) -> float:
        """Returns the bytes per second of throttled replicas."""
        return self._rate.per_second(now)

    def delay(self, now: float) -> float:
        """Returns the seconds until lagging replicas may continue; 0 if they may now."""
        return self._rate.delay(max(self.bound, 1), now)


def replicas_here(text: str, node_id: NodeId) -> list[int] | None:
    """Returns the broker's partitions in a list of `PARTITION:BROKER`; ALL for `*`."""
    words = [word for word in text.split(",") if word.strip()]
    if [word.strip() for word in words] == ["*"]:
        return ALL
    pairs = (word.split(":") for word in words)
    return [int(partition) for partition, broker in pairs if int(broker) == node_id]

"""Types of the identities and numbers that Kafka's protocol is about.

A partition and an address are pairs with named fields. Offsets, positions, epochs and ids are integers at run time:
`Offset(5)` is `int(5)`, which costs no Python call. To a type checker each is a subtype of `int` of its own: an epoch
is refused as an offset, and so is a bare number (`tests/wire/test_identity.py`). Values get their types at the edges:
where bytes and messages are decoded, and in constructors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Self, overload


class TopicPartition(NamedTuple):
    """A partition by the name of its topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TopicIdPartition(NamedTuple):
    """A partition by the id of its topic, 16 bytes: a later topic of the same name has another id."""

    topic_id: bytes
    partition: int


class Address(NamedTuple):
    """The host and port of a socket."""

    host: str
    port: int


if TYPE_CHECKING:

    class _Counted(int):
        """A count from 0: counting on gives the same type, and the distance of two is a bare number."""

        def __add__(self, other: int, /) -> Self: ...
        @overload
        def __sub__(self, other: Self, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, other: int, /) -> Self: ...
        def __sub__(self, other: int, /) -> int: ...

    class Offset(_Counted):
        """The number of a record in its partition."""

    class Position(_Counted):
        """Bytes from the beginning of a file."""

    class LeaderEpoch(int):
        """Counts the leaders of a partition, or of the metadata log."""

    class PartitionEpoch(int):
        """Counts the changes of a partition's state."""

    class ControllerEpoch(int):
        """Counts the controllers that ZooKeeper has had. The leader epoch of the metadata log is another number."""

    class CoordinatorEpoch(int):
        """Counts the transaction coordinators of a partition of `__transaction_state`: its leader epoch."""

    class BrokerEpoch(int):
        """Tells registrations of one broker apart: the metadata offset of the registration."""

    class NodeId(int):
        """The `node.id` of a controller, a broker, or a node that is both."""

    class BrokerId(NodeId):
        """The `node.id` of a broker."""

    class ProducerId(int):
        """Given to idempotent and transactional producers by the controller."""

    class ProducerEpoch(int):
        """Counts the lives of a producer: 0 to 32767."""
else:
    Offset = Position = int
    LeaderEpoch = PartitionEpoch = ControllerEpoch = BrokerEpoch = ProducerEpoch = int
    CoordinatorEpoch = int
    NodeId = BrokerId = ProducerId = int

# The values that stand for no number, as in Kafka.
NO_OFFSET = Offset(-1)
NO_NODE = NodeId(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_CONTROLLER_EPOCH = ControllerEpoch(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_COORDINATOR_EPOCH = CoordinatorEpoch(-1)
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

"""The types of identities and numbers in Kafka's protocol.

A partition and an address are pairs with named fields. Offsets, positions, epochs and ids are integers at run time:
`Offset(5)` is `int(5)`, which costs no Python call. To a type checker each is a distinct subtype of `int`: neither an
epoch nor a bare number is accepted as an offset (`tests/wire/test_identity.py`). Values get their types at the
boundaries: where bytes and messages are decoded, and in constructors.
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


class SharePartitionKey(NamedTuple):
    """A partition that a share group reads (KIP-932)."""

    group_id: str
    topic_id: bytes
    partition: int


class Address(NamedTuple):
    """The host and port of a socket. Its text is HOST:PORT, with brackets around an IPv6 address, as
    `parse_bootstrap` reads it.
    """

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


if TYPE_CHECKING:

    class _Counted(int):
        """A count from 0: adding a number gives the same type, and the difference of two counts is a bare number."""

        def __add__(self, other: int, /) -> Self: ...
        @overload
        def __sub__(self, other: Self, /) -> int: ...  # type: ignore[overload-overlap]
        @overload
        def __sub__(self, other: int, /) -> Self: ...
        def __sub__(self, other: int, /) -> int: ...

    class Offset(_Counted):
        """The number of a record in its partition."""

    class Position(_Counted):
        """A position: bytes from the beginning of a file."""

    class LeaderEpoch(int):
        """Counts the leaders of a partition, or of the metadata log."""

    class PartitionEpoch(int):
        """Counts the changes of a partition's state."""

    class ControllerEpoch(int):
        """Counts the controllers that ZooKeeper has had. The leader epoch of the metadata log is a different number."""

    class CoordinatorEpoch(int):
        """Counts the transaction coordinators of a partition of `__transaction_state`: its leader epoch."""

    class BrokerEpoch(int):
        """Distinguishes registrations of a broker: the metadata offset of the registration."""

    class NodeId(int):
        """The `node.id` of a controller, a broker, or a node that is both."""

    class BrokerId(NodeId):
        """The `node.id` of a broker."""

    class StateEpoch(int):
        """Counts the initializations of the state of a share partition: the epoch of the group at that time."""

    class ProducerId(int):
        """The id that the controller assigns to an idempotent or transactional producer."""

    class ProducerEpoch(int):
        """Counts the incarnations of a producer: 0 to 32767."""

    class GroupEpoch(_Counted):
        """Counts the changes of a consumer group. Its target assignment, its members and their partitions have the
        epoch that they have reached (KIP-848).
        """

    class TopologyEpoch(int):
        """Counts the topologies of a streams group (KIP-1071)."""

    class SnapshotEpoch(_Counted):
        """Counts the stored snapshots of a share partition's state (KIP-932)."""

    class EndpointEpoch(_Counted):
        """Counts the changes of the endpoints that a streams group's members have for queries (KIP-1071)."""

    class SessionEpoch(_Counted):
        """Counts the requests of a fetch session (KIP-227), or of a share session (KIP-932)."""

    class AclEpoch(_Counted):
        """Counts the changes of the ACLs that a node has seen."""
else:
    Offset = Position = int
    LeaderEpoch = PartitionEpoch = ControllerEpoch = BrokerEpoch = ProducerEpoch = int
    CoordinatorEpoch = StateEpoch = GroupEpoch = TopologyEpoch = SessionEpoch = AclEpoch = int
    SnapshotEpoch = EndpointEpoch = int
    NodeId = BrokerId = ProducerId = int

# The values for an absent number, as in Kafka.
NO_OFFSET = Offset(-1)
NO_NODE = NodeId(-1)
NO_BROKER = BrokerId(-1)
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_CONTROLLER_EPOCH = ControllerEpoch(-1)
NO_BROKER_EPOCH = BrokerEpoch(-1)
NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_COORDINATOR_EPOCH = CoordinatorEpoch(-1)
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

INITIAL_ACL_EPOCH = AclEpoch(0)  # before the first change
INITIAL_ENDPOINT_EPOCH = EndpointEpoch(0)  # before the first endpoint

"""The values that request handlers of a broker may use, by family.

A handler is `def handle(request, ctx: DataContext, call: Call) -> …`; it names the context of its family and reads
nothing else of the broker. `trimaran.broker.process.families` makes one `Context`, which is a context of each family.

- `ctx.metadata.image` is the newest applied `MetadataImage`; `await ctx.metadata.wait_for(predicate)` waits for a later
  one.
- `ctx.partitions.find(key)` returns this broker's `Partition` or None; `.leader_of(key)` returns its
  `PartitionLeader` or raises the `KafkaError` that clients get (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, …).
- `leader.append(batches)` appends as leader, starts the flush and wakes followers; it returns `AppendInfo` at once.
  `await leader.high_watermark.wait_reached(info.last_offset + 1)` returns when all of the ISR has it on disk and raises
  `NotLeaderError` when the epoch ends first. `leader.log.read_bytes(…)` reads back.
- `ctx.forwarder` wraps a client's request in an Envelope for the active controller; `ctx.topic_creation.create(names)`
  makes missing topics (also internal ones).
- `ctx.groups` coordinates groups and `ctx.transactions` transactions, if this broker leads their partition;
  `ctx.verifier` reaches the coordinator of any transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimaran.broker.metadata.client_quotas import ClientQuotas
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.broker.metadata.topic_views import TopicViews
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.identity import BrokerId

if TYPE_CHECKING:
    from trimaran.broker.background.directory_moves import DirectoryMoves
    from trimaran.broker.channels.forwarding import Forwarder
    from trimaran.broker.fetching.replica_selection import ReplicaSelector
    from trimaran.broker.fetching.sessions import FetchSessions
    from trimaran.broker.groups.coordinator import GroupCoordinator
    from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
    from trimaran.broker.metadata.metadata_cache import BrokerMetadata
    from trimaran.broker.metadata.topic_creation import TopicCreation
    from trimaran.broker.partitions.registry import Partitions
    from trimaran.broker.producing.producer_ids import ProducerIdManager
    from trimaran.broker.storage.directories import LogDirectories
    from trimaran.broker.telemetry.clients import ClientMetrics
    from trimaran.broker.transactions.coordinator import TransactionCoordinator
    from trimaran.broker.transactions.verification import TransactionVerifier
    from trimaran.node.config.server import ServerConfig
    from trimaran.quorum.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Bounds that handlers read often, taken from the configuration once."""

    fetch_bytes_max: int  # fetch.max.bytes: of one Fetch answer, the first batch excepted


# Contexts of families have no slots: `Context` is all of them.
@dataclass(frozen=True, kw_only=True)
class DataContext:
    """For requests that write and read the logs of partitions: Produce, Fetch and lookups of offsets.

    `authorizer` is None if everything is allowed, `replica_selector` if consumers read from leaders only. `now_ms` is
    the wall clock.
    """

    metadata: BrokerMetadata
    partitions: Partitions
    fetch_sessions: FetchSessions
    limits: BrokerLimits
    replica_selector: ReplicaSelector | None = None
    quotas: ClientQuotas = field(default_factory=ClientQuotas)
    throttles: ReplicationThrottles = field(default_factory=ReplicationThrottles)
    verifier: TransactionVerifier
    now_ms: Callable[[], int]
    authorizer: Authorizer | None = None


@dataclass(frozen=True, kw_only=True)
class GroupContext:
    """For requests of group members and about groups and their offsets, and for FindCoordinator.

    `zookeeper_offsets` is None if no ZooKeeper is named.
    """

    config: ServerConfig
    metadata: BrokerMetadata
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verifier: TransactionVerifier
    topic_creation: TopicCreation
    zookeeper_offsets: ZooKeeperOffsets | None = None
    authorizer: Authorizer | None = None


@dataclass(frozen=True, kw_only=True)
class TransactionContext:
    """For requests of transactional producers, and for the markers that coordinators elsewhere send."""

    metadata: BrokerMetadata
    partitions: Partitions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIdManager
    topic_creation: TopicCreation
    now_ms: Callable[[], int]
    authorizer: Authorizer | None = None


@dataclass(frozen=True, kw_only=True)
class DirectoryContext:
    """For requests about the log directories of this broker, and the replicas in them."""

    node_id: BrokerId
    metadata: BrokerMetadata
    partitions: Partitions
    directories: LogDirectories
    moves: DirectoryMoves
    authorizer: Authorizer | None = None


@dataclass(frozen=True, kw_only=True)
class AdminContext:
    """For requests about the cluster: what the image says of it, and changes that the controller decides.

    `client_metrics` is None in tests.
    """

    config: ServerConfig
    node_id: BrokerId
    cluster_id: str
    metadata: BrokerMetadata
    forwarder: Forwarder
    topic_creation: TopicCreation
    topic_views: TopicViews = field(default_factory=TopicViews)
    client_metrics: ClientMetrics | None = None
    kraft_version: Callable[[], int]
    authorizer: Authorizer | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest image that has been applied."""
        return self.metadata.image

    @property
    def collects_client_metrics(self) -> bool:
        """Whether this broker takes the metrics of clients (KIP-714)."""
        return self.client_metrics is not None and self.client_metrics.received is not None


@dataclass(frozen=True, kw_only=True)
class Context(DataContext, GroupContext, TransactionContext, DirectoryContext, AdminContext):
    """The context of every family: the registry gives it to each handler, which sees the part that it names."""

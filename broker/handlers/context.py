"""The objects that a broker's request handlers may use, by family.

A handler is `def handle(request, ctx: DataContext, call: Call) -> …`; it uses nothing else of the broker.
`trimaran.broker.process.families` creates the `Contexts`, one for each family. The handler's row in
`trimaran.broker.handlers.registry` chooses its context, and mypy checks that the annotation agrees.

- `ctx.metadata.image` is the newest applied `MetadataImage`; a handler waits for a later one
  by `yield Wait(partial(ctx.metadata.wait_for, predicate))`.
- `ctx.partitions.find(key)` returns this broker's `Partition` or None; `.leader_of(key)` returns its
  `PartitionLeader` or raises the `KafkaError` for the client (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, …).
- `leader.append(batches)` appends as leader, starts the flush and wakes followers; it returns `AppendInfo` immediately.
  `await leader.high_watermark.wait_reached(info.last_offset + 1)` returns when the whole ISR has the records on disk,
  and raises `NotLeaderError` if the epoch ends first. `leader.log.read_bytes(…)` reads them back.
- `ctx.forwarder` wraps a client's request in an Envelope for the active controller; `ctx.topic_creation.create(names)`
  makes missing topics (also internal ones).
- `ctx.groups` coordinates groups and `ctx.transactions` coordinates transactions whose partition this broker leads;
  `ctx.verifier` reaches the coordinator of any transaction.
- `ctx.shares` coordinates the states of share partitions in the same way; `ctx.share_states` reaches the coordinator of
  any share partition.
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
    from trimaran.broker.fetching.latest_offsets import LatestOffsets
    from trimaran.broker.fetching.replica_selection import ReplicaSelector
    from trimaran.broker.fetching.sessions import FetchSessions
    from trimaran.broker.groups.coordinator import GroupCoordinator
    from trimaran.broker.groups.zookeeper_offsets import ZooKeeperOffsets
    from trimaran.broker.metadata.metadata_cache import BrokerMetadata
    from trimaran.broker.metadata.topic_creation import TopicCreation
    from trimaran.broker.partitions.registry import Partitions
    from trimaran.broker.producing.producer_ids import ProducerIdManager
    from trimaran.broker.share_state.coordinator import ShareCoordinator
    from trimaran.broker.share_state.states import ShareStates
    from trimaran.broker.sharing.share_partitions import SharePartitions
    from trimaran.broker.storage.directories import LogDirectories
    from trimaran.broker.telemetry.clients import ClientMetrics
    from trimaran.broker.transactions.coordinator import TransactionCoordinator
    from trimaran.broker.transactions.verification import TransactionVerifier
    from trimaran.node.config.server import ServerConfig
    from trimaran.quorum.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Limits that handlers read often, read from the configuration once."""

    # fetch.max.bytes: the maximum of one Fetch response, not counting its first batch.
    fetch_bytes_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataContext:
    """The context of requests that read and write partition logs: Produce, Fetch and offset lookups.

    `authorizer` is None if everything is allowed, `replica_selector` is None if consumers read only from leaders.
    `now_ms` returns the wall-clock time.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SharingContext:
    """The context of requests from members of share groups to the leaders of partitions."""

    config: ServerConfig
    metadata: BrokerMetadata
    partitions: Partitions
    sharing: SharePartitions
    limits: BrokerLimits
    quotas: ClientQuotas = field(default_factory=ClientQuotas)
    authorizer: Authorizer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupContext:
    """The context of requests from group members, requests about groups and their offsets, and FindCoordinator.

    `zookeeper_offsets` is None if no ZooKeeper is configured. `latest_offsets` finds the ends of partitions for lags.
    """

    config: ServerConfig
    metadata: BrokerMetadata
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verifier: TransactionVerifier
    topic_creation: TopicCreation
    shares: ShareCoordinator
    share_states: ShareStates
    latest_offsets: LatestOffsets
    zookeeper_offsets: ZooKeeperOffsets | None = None
    authorizer: Authorizer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionContext:
    """The context of requests from transactional producers, and of the markers that other coordinators send."""

    metadata: BrokerMetadata
    partitions: Partitions
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    producer_ids: ProducerIdManager
    topic_creation: TopicCreation
    now_ms: Callable[[], int]
    authorizer: Authorizer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareContext:
    """The context of requests about the states of share partitions: those whose partition of `__share_group_state` this
    broker leads.
    """

    shares: ShareCoordinator
    authorizer: Authorizer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryContext:
    """The context of requests about this broker's log directories and the replicas in them."""

    node_id: BrokerId
    metadata: BrokerMetadata
    partitions: Partitions
    directories: LogDirectories
    moves: DirectoryMoves
    authorizer: Authorizer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminContext:
    """The context of requests about the cluster: its metadata, and changes that the controller decides.

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
        """The newest image that this broker has applied."""
        return self.metadata.image

    @property
    def collects_client_metrics(self) -> bool:
        """Whether this broker collects metrics from clients (KIP-714)."""
        return self.client_metrics is not None and self.client_metrics.received is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """The context of each family of handlers. A request gets that of its handler's family."""

    data: DataContext
    sharing: SharingContext
    groups: GroupContext
    transactions: TransactionContext
    shares: ShareContext
    directories: DirectoryContext
    administration: AdminContext

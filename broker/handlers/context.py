"""The few things that a broker's request handlers may use.

A handler is `def handle(request, ctx: Context, call: Call) -> Response | DeferredResponse[Response]`; it gets this
frozen value, never the broker. Who needs something else (a coordinator, a background task) is constructed by
`trimaran.broker.process.composition` with just that.

How the parts meet:

- `ctx.metadata.image` is the newest applied `MetadataImage`; `await ctx.metadata.wait_for(predicate)` waits for a later
one.
- `ctx.partitions.find(topic, index)` gives this broker's `Partition` or None; `.leader_of(topic, index)` gives its
  `PartitionLeader` or raises the `KafkaError` that clients get (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, …).
- `leader.append(batches)` appends as leader, starts the flush and wakes followers; it returns `AppendInfo` at once.
  `await leader.high_watermark.wait_reached(info.last_offset + 1)` returns when all of the ISR has it on disk and raises
  `NotLeaderError` when the epoch ends first. `leader.log.read_bytes(…)` reads back.
- `ctx.partitions.listen(topic, listener)` tells a `LeadershipListener` (`trimaran.broker.partitions.registry`) of every
  epoch
that
  begins and ends on the partitions of one topic: `began(partition_index, leader)`, `ended(partition_index,
  leader_epoch)`. Calls are plain and come in order; `ended` of epoch N comes before `began` of epoch N + 1. In an epoch
  `partition.open_leader()` is its `PartitionLeader` (which opens the log); after it, or on a follower, it raises.
- `ctx.controller.call(request)` asks the active controller, finding the new one when it changes; `ctx.forwarder` wraps
  a client's request in an Envelope; `ctx.topic_creation.create(names)` makes missing topics (also internal ones).
- `ctx.groups` is the coordinator of consumer groups; its `runtime` is registered with
`partitions.listen("__consumer_offsets", …)`
  and run by `trimaran.broker.process.server`. Only the group handlers look inside. `ctx.transactions` is the same for
  transactions; `ctx.verifier` asks whichever broker coordinates one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trimaran.broker.metadata.client_quotas import ClientQuotas
from trimaran.broker.metadata.replication_throttles import ReplicationThrottles
from trimaran.broker.metadata.topic_views import TopicViews
from trimaran.quorum.metadata.authorizer import Authorizer

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
    from trimaran.broker.producing.producer_ids import ProducerIds
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


@dataclass(frozen=True, slots=True)
class Context:
    """See the module's docstring; `now_ms` is the wall clock. `authorizer` is None where everybody
    may do everything, `zookeeper_offsets` where no ZooKeeper is named, `replica_selector` where consumers read from
    leaders only, `client_metrics` in tests.
    """

    config: ServerConfig
    node_id: int
    cluster_id: str
    metadata: BrokerMetadata
    partitions: Partitions
    directories: LogDirectories
    moves: DirectoryMoves
    forwarder: Forwarder
    topic_creation: TopicCreation
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    verifier: TransactionVerifier
    limits: BrokerLimits
    now_ms: Callable[[], int]
    kraft_version: Callable[[], int]
    topic_views: TopicViews = field(default_factory=TopicViews)
    quotas: ClientQuotas = field(default_factory=ClientQuotas)
    throttles: ReplicationThrottles = field(default_factory=ReplicationThrottles)
    authorizer: Authorizer | None = None
    zookeeper_offsets: ZooKeeperOffsets | None = None
    replica_selector: ReplicaSelector | None = None
    client_metrics: ClientMetrics | None = None

    @property
    def image(self) -> MetadataImage:
        """The newest image that has been applied."""
        return self.metadata.image

    @property
    def collects_client_metrics(self) -> bool:
        """Whether clients are asked for theirs (KIP-714)."""
        return self.client_metrics is not None and self.client_metrics.received is not None

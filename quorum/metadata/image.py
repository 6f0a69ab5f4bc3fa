"""What the metadata log says, as immutable values over persistent maps.

Source: Kafka's `MetadataImage` and its aggregates (KIP-631). A delta makes the next image from this one and shares all that did
not change. Records of parts that nothing here serves yet (ACLs, SCRAM, quotas, tokens) are kept whole in `other`, so a
snapshot loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from immutables import Map

from wire.primitives import NIL_UUID
from wire.schema import Message

NO_LEADER = -1
RESOURCE_TOPIC, RESOURCE_BROKER = 2, 4
METADATA_VERSION = "metadata.version"
ConfigResource = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where in the log an image stands: `offset` and `epoch` of the last record in it, -1 before the first."""

    offset: int = -1
    epoch: int = -1
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An advertised listener. `security_protocol` is Kafka's id: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """Levels of a feature that a node supports, both ends included."""

    name: str
    min_level: int
    max_level: int


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """A broker as registered. `epoch` is the offset of its registration record."""

    id: int
    epoch: int
    incarnation_id: bytes
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] = ()
    is_migrating_zk_broker: bool = False


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    """A controller as registered (KIP-919)."""

    id: int
    incarnation_id: bytes
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...]
    zk_migration_ready: bool = False


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """A partition. `replicas` in order of preference; `isr` a subset; `leader` -1 when none can lead."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int = 0
    directories: tuple[bytes, ...] = ()
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicImage:
    """A topic; partitions by index."""

    name: str
    id: bytes
    partitions: Map[int, PartitionImage] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """Topics under both their keys; a name belongs to one id at a time."""

    by_id: Map[bytes, TopicImage] = field(default_factory=Map)
    by_name: Map[str, TopicImage] = field(default_factory=Map)

    def partition(self, name: str, index: int) -> PartitionImage | None:
        topic = self.by_name.get(name)
        return None if topic is None else topic.partitions.get(index)


@dataclass(frozen=True, slots=True)
class ClusterImage:
    """Registered nodes by id."""

    brokers: Map[int, BrokerRegistration] = field(default_factory=Map)
    controllers: Map[int, ControllerRegistration] = field(default_factory=Map)

    def is_active(self, broker_id: int) -> bool:
        """Whether the broker may be in an ISR: registered, not fenced, not about to go."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Dynamic configs. The key is (resource type, name); the brokers' default is named by the empty string."""

    by_resource: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)

    def of(self, resource_type: int, name: str) -> Map[str, str]:
        return self.by_resource.get((resource_type, name), Map())


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized feature levels, `metadata.version` among them; 0 means not enabled."""

    levels: Map[str, int] = field(default_factory=Map)

    @property
    def metadata_version(self) -> int:
        return int(self.levels.get(METADATA_VERSION, 0))


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """The first producer id that was never handed out."""

    next_producer_id: int = 0


@dataclass(frozen=True, slots=True)
class OtherImage:
    """Records kept for snapshots only, by what identifies them: a later record of the same key replaces, a removal drops."""

    records: Map[tuple[object, ...], Message] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The whole state at one offset of the metadata log."""

    provenance: Provenance = Provenance()
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigsImage = ConfigsImage()
    producer_ids: ProducerIdsImage = ProducerIdsImage()
    other: OtherImage = OtherImage()


EMPTY = MetadataImage()
UNASSIGNED_DIRECTORY = NIL_UUID

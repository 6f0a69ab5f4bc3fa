"""The state of the metadata log at one offset: frozen values over persistent maps.

An image is immutable; a later image shares all unchanged parts with it. Source: KIP-631, Kafka's `image` package. ACLs,
SCRAM credentials, delegation tokens and client quotas are stored as their records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from immutables import Map

from trimaran.wire.identity import (
    NO_LEADER_EPOCH,
    NO_OFFSET,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    NodeId,
    Offset,
    PartitionEpoch,
    ProducerId,
)
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.records.quotas import ClientQuotaRecord
from trimaran.wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
)
from trimaran.wire.text.endpoint import Endpoint

NO_LEADER = BrokerId(-1)

# Reserved directory ids: not assigned yet, lost, and known only to the broker itself (KIP-858).
UNASSIGNED_DIRECTORY = bytes(16)
LOST_DIRECTORY = bytes(15) + b"\x01"
MIGRATING_DIRECTORY = bytes(15) + b"\x02"

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
# Kafka's names for the types.
RESOURCE_TYPES = {
    TOPIC_RESOURCE: "TOPIC",
    BROKER_RESOURCE: "BROKER",
    BROKER_LOGGER_RESOURCE: "BROKER_LOGGER",
    CLIENT_METRICS_RESOURCE: "CLIENT_METRICS",
    GROUP_RESOURCE: "GROUP",
}


class Provenance(NamedTuple):
    """The origin of an image: the offset and epoch of its last record, and the time at which the leader appended that
    record.
    """

    offset: Offset = NO_OFFSET
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    timestamp_ms: int = NO_TIMESTAMP


NOWHERE = Provenance()


class FeatureRange(NamedTuple):
    """The levels of a feature that a node supports, both ends included."""

    name: str
    min_level: int
    max_level: int


class PartitionImage(NamedTuple):
    """One partition. `directories` has one entry for each of `replicas`; `leader` is -1 if there is none.

    `leader_recovery_state` is 0 (recovered) or 1 (recovering after an unclean election).
    """

    replicas: tuple[BrokerId, ...]
    directories: tuple[bytes, ...]
    isr: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    leader: BrokerId = NO_LEADER
    leader_recovery_state: int = 0
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    partition_epoch: PartitionEpoch = PartitionEpoch(0)

    @property
    def preferred_leader(self) -> BrokerId:
        """Returns the first replica."""
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, broker_id: BrokerId) -> bytes:
        """Returns the directory of a replica; unassigned if the broker is not a replica."""
        if broker_id not in self.replicas:
            return UNASSIGNED_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]


class TopicImage(NamedTuple):
    name: str
    id: bytes
    partitions: Map[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    """All topics, by name and by id."""

    by_name: Map[str, TopicImage] = field(default_factory=Map)
    by_id: Map[bytes, TopicImage] = field(default_factory=Map)


@dataclass(frozen=True, slots=True)
class BrokerRegistration:
    """The registration of one broker. `directories` are the online ones, sorted.

    `cordoned_directories` is None until the broker has reported them.
    """

    id: BrokerId
    epoch: BrokerEpoch
    incarnation_id: bytes
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None
    is_migrating_zk_broker: bool = False

    @property
    def active(self) -> bool:
        """Returns whether the broker may be in an ISR and lead."""
        return not self.fenced and not self.in_controlled_shutdown

    def has_online(self, directory: bytes) -> bool:
        """Returns whether the directory is online. Unassigned and migrating directories count as online, because the
        broker knows where the replica is (KIP-858).
        """
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        return directory != LOST_DIRECTORY and (
            not self.directories or directory in self.directories
        )


@dataclass(frozen=True, slots=True)
class ControllerRegistration:
    id: NodeId
    incarnation_id: bytes
    zk_migration_ready: bool
    listeners: tuple[Endpoint, ...]
    features: tuple[FeatureRange, ...] = ()


@dataclass(frozen=True, slots=True)
class ClusterImage:
    brokers: Map[BrokerId, BrokerRegistration] = field(default_factory=Map)
    controllers: Map[NodeId, ControllerRegistration] = field(default_factory=Map)


ConfigResource = tuple[int, str]


@dataclass(frozen=True, slots=True)
class ConfigsImage:
    """Configs by (resource type, name). Resources without configs have no entry; the broker named `""` is the cluster
    default.
    """

    by_resource: Map[ConfigResource, Map[str, str]] = field(default_factory=Map)

    def of(self, resource_type: int, name: str) -> Map[str, str]:
        """Returns the configs set on the resource itself, possibly none."""
        return self.by_resource.get((resource_type, name), Map())


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized levels. `metadata_version` is 0 until a record sets it; `levels` has the other features that
    are not 0.
    """

    metadata_version: int = 0
    levels: Map[str, int] = field(default_factory=Map)

    @property
    def keeps_eligible_leaders(self) -> bool:
        """Returns whether eligible leader replicas are kept (KIP-966)."""
        return self.levels.get("eligible.leader.replicas.version", 0) > 0


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    """The first producer id that no broker has; -1 before the first block."""

    next_producer_id: ProducerId = NO_PRODUCER_ID


# The number of unknown record types that are listed; a release of Kafka adds one or two.
UNKNOWN_KINDS_MAX = 20


@dataclass(frozen=True, slots=True)
class UnknownRecords:
    """Records of a later Kafka version that an observer skipped; the image lacks their changes.

    `kinds` has the first of each type and version.
    """

    count: int = 0
    kinds: tuple[UnknownRecord, ...] = ()

    def plus(self, count: int, kinds: Iterable[UnknownRecord]) -> UnknownRecords:
        """Returns the sum with further records of the given kinds."""
        first = {(kind.type, kind.version): kind for kind in self.kinds}
        for kind in kinds:
            if len(first) < UNKNOWN_KINDS_MAX:
                first.setdefault((kind.type, kind.version), kind)
        return UnknownRecords(self.count + count, tuple(first.values()))

    @property
    def text(self) -> str:
        """Returns the count and the types as readable text; empty if there are none."""
        kinds = ", ".join(str(kind) for kind in self.kinds)
        many = "record" if self.count == 1 else "records"
        return f"{self.count} {many} of a later Kafka ({kinds})" if self.count else ""


QuotaEntity = tuple[tuple[str, str | None], ...]


AclsImage = Map[bytes, AccessControlEntryRecord]  # by id


class ScramKey(NamedTuple):
    """A user and the number of a SCRAM mechanism."""

    user: str
    mechanism: int


ScramImage = Map[ScramKey, UserScramCredentialRecord]
TokensImage = Map[str, DelegationTokenRecord]  # by token id
QuotasImage = Map[tuple[QuotaEntity, str], ClientQuotaRecord]  # by entity and quota


@dataclass(frozen=True, slots=True)
class MetadataImage:
    provenance: Provenance = NOWHERE
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigsImage = ConfigsImage()
    producer_ids: ProducerIdsImage = ProducerIdsImage()
    acls: AclsImage = field(default_factory=Map)
    scram: ScramImage = field(default_factory=Map)
    tokens: TokensImage = field(default_factory=Map)
    quotas: QuotasImage = field(default_factory=Map)
    unknown: UnknownRecords = UnknownRecords()
    # The approximate memory of `tokens`; a sum over all of them at each creation would take long.
    token_bytes: int = 0

    def same_content(self, other: MetadataImage) -> bool:
        """Returns whether the images are equal, except for their origins and unknown records."""
        return all(getattr(self, part) == getattr(other, part) for part in _CONTENT)

    def shares_content(self, other: MetadataImage) -> bool:
        """Returns whether no record has changed the content between the two: an image shares unchanged parts with the
        one that it was made from.
        """
        return all(getattr(self, part) is getattr(other, part) for part in _CONTENT)


_CONTENT = tuple(
    part.name
    for part in fields(MetadataImage)
    if part.name not in ("provenance", "unknown", "token_bytes")
)
EMPTY = MetadataImage()

"""Records since an image, by aggregate: replayed one by one, asked what changed, applied to make the next image.

Source: Kafka's `MetadataDelta`. One registry dispatches records to the aggregates: the only place where record types are listed.
A snapshot is a delta too: replay all of it, then `finish_snapshot` drops what it did not mention.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from immutables import Map

from quorum.metadata.cluster_delta import ClusterDelta
from quorum.metadata.image import (
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigsImage,
    FeaturesImage,
    MetadataImage,
    OtherImage,
    ProducerIdsImage,
    Provenance,
)
from quorum.metadata.topics_delta import TopicsDelta
from wire.records.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from wire.records.configs import ConfigRecord
from wire.records.features import FeatureLevelRecord
from wire.records.misc import NoOpRecord, ZkMigrationStateRecord
from wire.records.producer_ids import ProducerIdsRecord
from wire.records.quotas import ClientQuotaRecord
from wire.records.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from wire.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from wire.schema import Message


class ConfigsDelta:
    """Changed configs: per resource the values set, None for a key removed."""

    def __init__(self, image: ConfigsImage) -> None:
        self.image = image
        self.changed: dict[ConfigResource, dict[str, str | None]] = {}

    def replay(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        self.changed.setdefault(resource, {})[record.name] = record.value

    def replay_topic_removed(self, name: str) -> None:
        resource = (RESOURCE_TOPIC, name)
        self.changed.pop(resource, None)
        if gone := self.image.by_resource.get(resource):
            self.changed[resource] = dict.fromkeys(gone)

    def finish_snapshot(self) -> None:
        for resource, values in self.image.by_resource.items():
            changes = self.changed.setdefault(resource, {})
            for key, value in values.items():
                if changes.setdefault(key, None) == value:
                    del changes[key]
            if not changes:
                del self.changed[resource]

    def __bool__(self) -> bool:
        return bool(self.changed)

    def apply(self) -> ConfigsImage:
        if not self:
            return self.image
        by_resource = self.image.by_resource.mutate()
        for resource, changes in self.changed.items():
            values = self.image.by_resource.get(resource, Map()).mutate()
            for key, value in changes.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
            if after := values.finish():
                by_resource[resource] = after
            else:
                by_resource.pop(resource, None)
        return ConfigsImage(by_resource.finish())


class FeaturesDelta:
    """Changed feature levels; level 0 disables."""

    def __init__(self, image: FeaturesImage) -> None:
        self.image = image
        self.changed: dict[str, int] = {}

    def replay(self, record: FeatureLevelRecord) -> None:
        self.changed[record.name] = record.feature_level

    def finish_snapshot(self) -> None:
        for name, level in self.image.levels.items():
            if self.changed.setdefault(name, 0) == level:
                del self.changed[name]

    def __bool__(self) -> bool:
        return bool(self.changed)

    def apply(self) -> FeaturesImage:
        if not self:
            return self.image
        levels = self.image.levels.mutate()
        for name, level in self.changed.items():
            if level == 0:
                levels.pop(name, None)
            else:
                levels[name] = level
        return FeaturesImage(levels.finish())


class OtherDelta:
    """Records of parts that only snapshots need, by key; None for a removal."""

    def __init__(self, image: OtherImage) -> None:
        self.image = image
        self.changed: dict[tuple[object, ...], Message | None] = {}

    def put(self, key: tuple[object, ...], record: Message | None) -> None:
        self.changed[key] = record

    def finish_snapshot(self) -> None:
        for key, record in self.image.records.items():
            if self.changed.setdefault(key, None) == record:
                del self.changed[key]

    def __bool__(self) -> bool:
        return bool(self.changed)

    def apply(self) -> OtherImage:
        if not self:
            return self.image
        records = self.image.records.mutate()
        for key, record in self.changed.items():
            if record is None:
                records.pop(key, None)
            else:
                records[key] = record
        return OtherImage(records.finish())


class MetadataDelta:
    """All changes since `image`. `replay` never validates: what is in the log was decided by a controller."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.topics = TopicsDelta(image.topics)
        self.cluster = ClusterDelta(image.cluster)
        self.configs = ConfigsDelta(image.configs)
        self.features = FeaturesDelta(image.features)
        self.other = OtherDelta(image.other)
        self.next_producer_id: int | None = None

    def replay(self, record: Message) -> None:
        """Takes one record in.

        Raises:
            KeyError: the record names something that does not exist: the log is not what a controller writes.
            TypeError: a record of a type that no registry lists.
        """
        try:
            replay = _REPLAY[type(record)]
        except KeyError:
            raise TypeError(f"no replay for {type(record).__name__}") from None
        replay(self, record)

    def finish_snapshot(self) -> None:
        """Everything replayed was a whole snapshot: what it did not mention is gone."""
        for part in (self.topics, self.cluster, self.configs, self.features, self.other):
            part.finish_snapshot()

    def __bool__(self) -> bool:
        parts = (self.topics, self.cluster, self.configs, self.features, self.other)
        return any(parts) or self.next_producer_id is not None

    def apply(self, provenance: Provenance) -> MetadataImage:
        """The image after the delta; what did not change is shared with the one before."""
        producer_ids = self.image.producer_ids
        if self.next_producer_id is not None:
            producer_ids = ProducerIdsImage(self.next_producer_id)
        return MetadataImage(
            provenance=provenance,
            features=self.features.apply(),
            cluster=self.cluster.apply(),
            topics=self.topics.apply(),
            configs=self.configs.apply(),
            producer_ids=producer_ids,
            other=self.other.apply(),
        )

    def replay_topic_removed(self, record: RemoveTopicRecord) -> None:
        self.configs.replay_topic_removed(self.topics.replay_remove(record))

    def replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def replay_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(
            sorted(
                (e.entity_type, e.entity_name or "", e.entity_name is None) for e in record.entity
            )
        )
        self.other.put(("quota", entity, record.key), None if record.remove else record)


def _other(kind: str, *names: str, remove: bool = False) -> Callable[[MetadataDelta, Any], None]:
    """Keeps (or drops) a record under `kind` and the values of the named fields."""

    def replay(delta: MetadataDelta, record: Message) -> None:
        key = (kind, *(getattr(record, name) for name in names))
        delta.other.put(key, None if remove else record)

    return replay


_REPLAY: dict[type[Message], Callable[[MetadataDelta, Any], None]] = {
    TopicRecord: lambda d, r: d.topics.replay_topic(r),
    PartitionRecord: lambda d, r: d.topics.replay_partition(r),
    PartitionChangeRecord: lambda d, r: d.topics.replay_partition_change(r),
    RemoveTopicRecord: MetadataDelta.replay_topic_removed,
    ClearElrRecord: lambda d, r: d.topics.replay_clear_elr(r),
    RegisterBrokerRecord: lambda d, r: d.cluster.replay_register(r),
    UnregisterBrokerRecord: lambda d, r: d.cluster.replay_unregister(r),
    FenceBrokerRecord: lambda d, r: d.cluster.replay_fence(r),
    UnfenceBrokerRecord: lambda d, r: d.cluster.replay_unfence(r),
    BrokerRegistrationChangeRecord: lambda d, r: d.cluster.replay_change(r),
    RegisterControllerRecord: lambda d, r: d.cluster.replay_register_controller(r),
    ConfigRecord: lambda d, r: d.configs.replay(r),
    FeatureLevelRecord: lambda d, r: d.features.replay(r),
    ProducerIdsRecord: MetadataDelta.replay_producer_ids,
    NoOpRecord: lambda _d, _r: None,
    ZkMigrationStateRecord: _other("migration"),
    ClientQuotaRecord: MetadataDelta.replay_quota,
    AccessControlEntryRecord: _other("acl", "id"),
    RemoveAccessControlEntryRecord: _other("acl", "id", remove=True),
    UserScramCredentialRecord: _other("scram", "name", "mechanism"),
    RemoveUserScramCredentialRecord: _other("scram", "name", "mechanism", remove=True),
    DelegationTokenRecord: _other("token", "token_id"),
    RemoveDelegationTokenRecord: _other("token", "token_id", remove=True),
}

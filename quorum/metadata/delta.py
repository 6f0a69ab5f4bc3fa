"""The changes to an image made by a sequence of metadata records, which may also be a snapshot.

    delta = MetadataDelta(image)
    for record in records: delta.replay(record)
    image = delta.apply(Provenance(last_offset, epoch, timestamp_ms))

The active controller, standbys, brokers and the mirror replay with the same code. After `finish_snapshot` a delta is
equivalent to one made from the log records between the two images. Source: Kafka's `MetadataDelta`. See `loader` for
transactions of records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimaran.quorum.metadata.cluster_delta import ClusterDelta
from trimaran.quorum.metadata.image import MetadataImage, Provenance, ScramKey
from trimaran.quorum.metadata.other_deltas import (
    ConfigsDelta,
    FeaturesDelta,
    MapDelta,
    ProducerIdsDelta,
    UnknownDelta,
    quota_key,
)
from trimaran.quorum.metadata.tokens import held_bytes
from trimaran.quorum.metadata.topics_delta import TopicsDelta
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records import (
    brokers,
    configs,
    features,
    misc,
    producer_ids,
    quotas,
    security,
    topics,
    transactions,
)
from trimaran.wire.records.metadata import UnknownRecord
from trimaran.wire.schema import Message


class MetadataDelta:
    """The changes since an image, in parts: `topics`, `cluster`, `configs`, `features`, `producer_ids`, `acls`,
    `scram`, `tokens`, `quotas`; `unknown` counts records that no part understands.
    """

    __slots__ = (
        "acls",
        "cluster",
        "configs",
        "features",
        "image",
        "producer_ids",
        "quotas",
        "scram",
        "tokens",
        "topics",
        "unknown",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.features = FeaturesDelta(image.features)
        self.cluster = ClusterDelta(image.cluster)
        self.topics = TopicsDelta(image.topics)
        self.configs = ConfigsDelta(image.configs)
        self.producer_ids = ProducerIdsDelta(image.producer_ids)
        self.acls = MapDelta(image.acls)
        self.scram = MapDelta(image.scram)
        self.tokens = MapDelta(image.tokens)
        self.quotas = MapDelta(image.quotas)
        self.unknown = UnknownDelta(image.unknown)

    def replay(self, record: Message | UnknownRecord) -> None:
        """Applies one record.

        Raises:
            RemoteProtocolError: the record changes something that does not exist, so log and image do not match.
        """
        replay = _REPLAYS.get(type(record))
        if replay is None:
            raise RemoteProtocolError(f"{type(record).__name__} is no metadata record")
        replay(self, record)

    def _remove_topic(self, record: topics.RemoveTopicRecord) -> None:
        self.configs.topic_removed(self.topics.remove_topic(record))

    def finish_snapshot(self) -> None:
        """Ends the replay of a snapshot: entries that it lacks are removed, and entries that it repeats are
        unchanged.
        """
        self.features.finish_snapshot()
        self.cluster.finish_snapshot()
        self.topics.finish_snapshot()
        self.configs.finish_snapshot()
        for part in (self.acls, self.scram, self.tokens, self.quotas, self.unknown):
            part.finish_snapshot()

    def apply(self, provenance: Provenance) -> MetadataImage:
        """Returns the image after the records; the delta itself is not changed."""
        return MetadataImage(
            provenance,
            self.features.apply(),
            self.cluster.apply(),
            self.topics.apply(),
            self.configs.apply(),
            self.producer_ids.apply(),
            self.acls.apply(),
            self.scram.apply(),
            self.tokens.apply(),
            self.quotas.apply(),
            self.unknown.apply(),
            self.image.token_bytes + self.tokens.growth(held_bytes),
        )


def _nothing(_delta: MetadataDelta, _record: Message) -> None:
    """Ignores a record that changes no part of the image."""


_REPLAYS: dict[type[Message | UnknownRecord], Callable[[MetadataDelta, Any], object]] = {
    brokers.RegisterBrokerRecord: lambda d, r: d.cluster.register_broker(r),
    brokers.UnregisterBrokerRecord: lambda d, r: d.cluster.unregister_broker(r),
    brokers.FenceBrokerRecord: lambda d, r: d.cluster.fence_broker(r),
    brokers.UnfenceBrokerRecord: lambda d, r: d.cluster.unfence_broker(r),
    brokers.BrokerRegistrationChangeRecord: lambda d, r: d.cluster.change_broker(r),
    brokers.RegisterControllerRecord: lambda d, r: d.cluster.register_controller(r),
    brokers.UnregisterControllerRecord: lambda d, r: d.cluster.unregister_controller(r),
    topics.TopicRecord: lambda d, r: d.topics.add_topic(r),
    topics.PartitionRecord: lambda d, r: d.topics.add_partition(r),
    topics.PartitionChangeRecord: lambda d, r: d.topics.change_partition(r),
    topics.ClearElrRecord: lambda d, r: d.topics.clear_elr(r),
    topics.RemoveTopicRecord: MetadataDelta._remove_topic,  # noqa: SLF001 - same module
    configs.ConfigRecord: lambda d, r: d.configs.set_config(r),
    features.FeatureLevelRecord: lambda d, r: d.features.set_level(r),
    producer_ids.ProducerIdsRecord: lambda d, r: d.producer_ids.set_next(r),
    quotas.ClientQuotaRecord: lambda d, r: d.quotas.set(quota_key(r), None if r.remove else r),
    security.AccessControlEntryRecord: lambda d, r: d.acls.set(r.id, r),
    security.RemoveAccessControlEntryRecord: lambda d, r: d.acls.set(r.id, None),
    security.UserScramCredentialRecord: lambda d, r: d.scram.set(ScramKey(r.name, r.mechanism), r),
    security.RemoveUserScramCredentialRecord: lambda d, r: d.scram.set(
        ScramKey(r.name, r.mechanism), None
    ),
    security.DelegationTokenRecord: lambda d, r: d.tokens.set(r.token_id, r),
    security.RemoveDelegationTokenRecord: lambda d, r: d.tokens.set(r.token_id, None),
    misc.NoOpRecord: _nothing,
    # Clusters migrated from ZooKeeper have this record in their logs; Kafka 4 neither acts on it nor writes it to
    # snapshots.
    misc.ZkMigrationStateRecord: _nothing,
    transactions.BeginTransactionRecord: _nothing,
    transactions.EndTransactionRecord: _nothing,
    transactions.AbortTransactionRecord: _nothing,
    UnknownRecord: lambda d, r: d.unknown.add(r),
}

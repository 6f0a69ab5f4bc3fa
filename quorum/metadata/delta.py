"""The changes of an image by a run of metadata records; a snapshot is such a run, too.

    delta = MetadataDelta(image)
    for record in records: delta.replay(record)
    image = delta.apply(Provenance(last_offset, epoch, timestamp_ms))

The same code replays on the active controller, on standbys, in brokers and in the mirror. After `finish_snapshot` a
delta asks the same questions and gives the same answers as one made of the log records between the two images. Source:
Kafka's `MetadataDelta`. See `loader` for transactions of records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trimaran.quorum.metadata.cluster_delta import ClusterDelta
from trimaran.quorum.metadata.image import MetadataImage, Provenance
from trimaran.quorum.metadata.other_deltas import (
    ConfigsDelta,
    FeaturesDelta,
    MapDelta,
    ProducerIdsDelta,
    UnknownDelta,
    quota_key,
)
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
    """Questions go to the parts: `topics`, `cluster`, `configs`, `features`, `producer_ids`, `acls`, `scram`, `tokens`,
    `quotas`; `unknown` counts what no part understands.
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
        """Takes one record.

        Raises:
            RemoteProtocolError: it changes something that is not there, so log and image do not belong together.
        """
        replay = _REPLAYS.get(type(record))
        if replay is None:
            raise RemoteProtocolError(f"{type(record).__name__} is no metadata record")
        replay(self, record)

    def _remove_topic(self, record: topics.RemoveTopicRecord) -> None:
        self.configs.topic_removed(self.topics.remove_topic(record))

    def finish_snapshot(self) -> None:
        """All of a snapshot has been replayed: what it did not say is gone, what it repeated is no change."""
        self.features.finish_snapshot()
        self.cluster.finish_snapshot()
        self.topics.finish_snapshot()
        self.configs.finish_snapshot()
        for part in (self.acls, self.scram, self.tokens, self.quotas, self.unknown):
            part.finish_snapshot()

    def apply(self, provenance: Provenance) -> MetadataImage:
        """The image after the records; the delta stays as it is."""
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
        )


def _nothing(_delta: MetadataDelta, _record: Message) -> None:
    """The record moves the log and nothing else."""


_REPLAYS: dict[type[Message | UnknownRecord], Callable[[MetadataDelta, Any], object]] = {
    brokers.RegisterBrokerRecord: lambda d, r: d.cluster.register_broker(r),
    brokers.UnregisterBrokerRecord: lambda d, r: d.cluster.unregister_broker(r),
    brokers.FenceBrokerRecord: lambda d, r: d.cluster.fence_broker(r),
    brokers.UnfenceBrokerRecord: lambda d, r: d.cluster.unfence_broker(r),
    brokers.BrokerRegistrationChangeRecord: lambda d, r: d.cluster.change_broker(r),
    brokers.RegisterControllerRecord: lambda d, r: d.cluster.register_controller(r),
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
    security.UserScramCredentialRecord: lambda d, r: d.scram.set((r.name, r.mechanism), r),
    security.RemoveUserScramCredentialRecord: lambda d, r: d.scram.set((r.name, r.mechanism), None),
    security.DelegationTokenRecord: lambda d, r: d.tokens.set(r.token_id, r),
    security.RemoveDelegationTokenRecord: lambda d, r: d.tokens.set(r.token_id, None),
    misc.NoOpRecord: _nothing,
    # Clusters that once came from ZooKeeper have it in their logs; Kafka 4 neither acts on it nor snapshots it.
    misc.ZkMigrationStateRecord: _nothing,
    transactions.BeginTransactionRecord: _nothing,
    transactions.EndTransactionRecord: _nothing,
    transactions.AbortTransactionRecord: _nothing,
    UnknownRecord: lambda d, r: d.unknown.add(r),
}

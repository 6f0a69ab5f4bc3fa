"""Short constructors of records and images."""

from __future__ import annotations

from collections.abc import Iterable

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import EMPTY, MetadataImage, Provenance
from trimaran.wire.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord
from trimaran.wire.schema import Message

SOMEWHERE = Provenance(10, 1, 1000)


def uid(number: int) -> bytes:
    """Returns a UUID that is not reserved."""
    return (1000 + number).to_bytes(16, "big")


def replay(records: Iterable[Message], image: MetadataImage = EMPTY) -> MetadataDelta:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta


def image_of(*records: Message, base: MetadataImage = EMPTY) -> MetadataImage:
    return replay(records, base).apply(SOMEWHERE)


def features(level: int = 30) -> FeatureLevelRecord:
    return FeatureLevelRecord(name="metadata.version", feature_level=level)


def broker(
    broker_id: int, *, epoch: int | None = None, fenced: bool = False, **more
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=more.pop("incarnation_id", uid(broker_id)),
        broker_epoch=100 + broker_id if epoch is None else epoch,
        end_points=[
            BrokerEndpoint(
                name="PLAINTEXT",
                host="localhost",
                port=more.pop("port", 9000 + broker_id),
                security_protocol=0,
            )
        ],
        features=[
            BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack=more.pop("rack", None),
        fenced=fenced,
        log_dirs=more.pop("log_dirs", [uid(500 + broker_id)]),
        **more,
    )


def changed_broker(broker_id: int, **more) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=more.pop("epoch", 100 + broker_id), **more
    )


def topic(name: str, number: int) -> TopicRecord:
    return TopicRecord(name=name, topic_id=uid(number))


def partition(number: int, index: int, replicas: Iterable[int], **more) -> PartitionRecord:
    """Returns a partition record; by default all replicas are in sync and the first one leads."""
    listed = list(replicas)
    return PartitionRecord(
        partition_id=index,
        topic_id=uid(number),
        replicas=listed,
        isr=more.pop("isr", listed),
        removing_replicas=more.pop("removing", []),
        adding_replicas=more.pop("adding", []),
        leader=more.pop("leader", listed[0]),
        leader_epoch=more.pop("leader_epoch", 0),
        partition_epoch=more.pop("partition_epoch", 0),
        directories=more.pop("directories", [uid(500 + broker_id) for broker_id in listed]),
        **more,
    )


def change(number: int, index: int, **more) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=uid(number), partition_id=index, **more)


def config(name: str, value: str | None, resource: tuple[int, str] = (2, "t")) -> ConfigRecord:
    return ConfigRecord(
        resource_type=resource[0], resource_name=resource[1], name=name, value=value
    )

"""An image as the records of a snapshot. Source: Kafka's `*Image.write` (KIP-630).

Replaying them into an empty image gives the image again.
"""

from __future__ import annotations

from collections.abc import Iterator

from quorum.metadata.image import (
    METADATA_VERSION,
    BrokerRegistration,
    ControllerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from wire.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from wire.records.configs import ConfigRecord
from wire.records.features import FeatureLevelRecord
from wire.records.producer_ids import ProducerIdsRecord
from wire.records.topics import PartitionRecord, TopicRecord
from wire.schema import Message


def image_to_records(image: MetadataImage) -> Iterator[Message]:
    """All state as records; `metadata.version` comes first, since it says how to read the rest."""
    levels = image.features.levels
    if METADATA_VERSION in levels:
        yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    for name in sorted(levels):
        if name != METADATA_VERSION:
            yield FeatureLevelRecord(name=name, feature_level=levels[name])
    for broker_id in sorted(image.cluster.brokers):
        yield _broker(image.cluster.brokers[broker_id])
    for controller_id in sorted(image.cluster.controllers):
        yield _controller(image.cluster.controllers[controller_id])
    for name in sorted(image.topics.by_name):
        yield from _topic(image.topics.by_name[name])
    for resource in sorted(image.configs.by_resource):
        for key, value in sorted(image.configs.by_resource[resource].items()):
            yield ConfigRecord(
                resource_type=resource[0], resource_name=resource[1], name=key, value=value
            )
    if image.producer_ids.next_producer_id:
        next_producer_id = image.producer_ids.next_producer_id
        yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=next_producer_id)
    yield from image.other.records.values()


def _broker(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in broker.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level
            )
            for f in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=list(broker.cordoned_directories) or None,
    )


def _controller(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in controller.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name, min_supported_version=f.min_level, max_supported_version=f.max_level
            )
            for f in controller.features
        ],
    )


def _topic(topic: TopicImage) -> Iterator[Message]:
    yield TopicRecord(name=topic.name, topic_id=topic.id)
    for index in sorted(topic.partitions):
        yield partition_record(topic.id, index, topic.partitions[index])


def partition_record(topic_id: bytes, index: int, partition: PartitionImage) -> PartitionRecord:
    """The record that makes this partition from nothing."""
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )

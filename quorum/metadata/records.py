"""Conversion of an image to the records of a snapshot, in the order of Kafka's `MetadataImage.write`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trimaran.quorum.metadata.delta import MetadataDelta
from trimaran.quorum.metadata.image import (
    EMPTY,
    MIGRATING_DIRECTORY,
    NO_LEADER,
    BrokerRegistration,
    ControllerRegistration,
    MetadataImage,
    PartitionImage,
)
from trimaran.quorum.metadata.topics_delta import TopicsDelta
from trimaran.quorum.metadata.versions import METADATA_VERSION
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.records.topics import PartitionRecord, TopicRecord
from trimaran.wire.schema import Message


def image_to_records(image: MetadataImage) -> Iterator[Message]:
    """Yields the records of the image. Features come first, so that a reader knows the levels for the rest."""
    yield from _features(image)
    for _, broker in sorted(image.cluster.brokers.items()):
        yield broker_record(broker)
    for _, controller in sorted(image.cluster.controllers.items()):
        yield controller_record(controller)
    yield from _topics(image)
    for (resource_type, resource_name), values in image.configs.by_resource.items():
        for name, value in values.items():
            yield ConfigRecord(
                resource_type=resource_type, resource_name=resource_name, name=name, value=value
            )
    yield from image.quotas.values()
    if image.producer_ids.next_producer_id >= 0:
        yield ProducerIdsRecord(
            broker_id=NO_LEADER, next_producer_id=image.producer_ids.next_producer_id
        )
    yield from image.acls.values()
    yield from image.scram.values()
    yield from image.tokens.values()


def delta_from_nothing(image: MetadataImage) -> MetadataDelta:
    """Returns the delta that replaying `image_to_records` would make, without building a record for every partition."""
    delta = MetadataDelta(EMPTY)
    for record in image_to_records(replace(image, topics=EMPTY.topics)):
        delta.replay(record)
    delta.topics = TopicsDelta.from_nothing(image.topics)
    return delta


def _features(image: MetadataImage) -> Iterator[FeatureLevelRecord]:
    if image.features.metadata_version:
        yield FeatureLevelRecord(
            name=METADATA_VERSION, feature_level=image.features.metadata_version
        )
    for name, level in image.features.levels.items():
        yield FeatureLevelRecord(name=name, feature_level=level)


def broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    cordoned = broker.cordoned_directories
    return RegisterBrokerRecord(
        broker_id=broker.id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in broker.listeners
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in broker.features
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.directories),
        cordoned_log_dirs=None if cordoned is None else list(cordoned),
    )


def controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=name, host=host, port=port, security_protocol=protocol)
            for name, host, port, protocol in controller.listeners
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in controller.features
        ],
    )


def _topics(image: MetadataImage) -> Iterator[Message]:
    for topic in image.topics.by_id.values():
        yield TopicRecord(name=topic.name, topic_id=topic.id)
        # Sorting plain integers is fast even though it holds the GIL.
        for index in sorted(topic.partitions):
            yield partition_record(TopicIdPartition(topic.id, index), topic.partitions[index])


def partition_record(key: TopicIdPartition, partition: PartitionImage) -> PartitionRecord:
    """Returns the record of a partition. Directories known only to their brokers are not written, because records
    before KIP-858 have no field for them.
    """
    has_directories = any(directory != MIGRATING_DIRECTORY for directory in partition.directories)
    return PartitionRecord(
        partition_id=key.partition,
        topic_id=key.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing),
        adding_replicas=list(partition.adding),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if has_directories else [],
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )

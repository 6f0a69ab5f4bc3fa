"""Image → the whole tree that ZooKeeper should show for it. Pure; order of the result: parents first, Kafka's order of
writing.

Source: what Kafka's ZooKeeper mode kept (`ZkData.scala`), filled from a KRaft image. The image does not know the
cluster id; it is given. A topic always has a config znode, as in ZooKeeper mode; a broker has one while it has configs,
as in dual-write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from quorum.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    BrokerRegistration,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from wire.records.sensitive import is_sensitive
from zkcompat.names import config_entity
from zkcompat.tree import Znode
from zkcompat.znodes import (
    STANDING_PARENTS,
    BrokerInfo,
    ClusterId,
    EntityConfig,
    Feature,
    ListenerAddress,
    PartitionState,
    ProducerIdBlock,
    TopicAssignment,
)


def render(image: MetadataImage, cluster_id: str) -> dict[str, Znode]:
    """Every znode of the mirror except the claim's three."""
    tree = {path: Znode(None) for path in STANDING_PARENTS}
    tree[ClusterId.PATH] = Znode(ClusterId(cluster_id).encode())
    tree[Feature.PATH] = Znode(Feature().encode())
    for broker in _by_id(image.cluster.brokers):
        if is_live(broker):
            tree[BrokerInfo.path(broker.id)] = render_broker(broker, image)
    for _, topic in sorted(image.topics.by_name.items()):
        tree.update(topic_znodes(topic, image))
    for kind, name in sorted(image.configs.by_resource.keys()):
        znode = render_broker_config(image, name) if kind == BROKER_RESOURCE else None
        if znode is not None:
            tree[EntityConfig.broker_path(config_entity(name))] = znode
    tree[ProducerIdBlock.PATH] = render_producer_ids(image)
    return tree


def is_live(broker: BrokerRegistration | None) -> bool:
    """Registered and unfenced: what a ZooKeeper-mode broker's session stood for."""
    return broker is not None and not broker.fenced


def render_broker(broker: BrokerRegistration, image: MetadataImage) -> Znode:
    endpoints = tuple(
        ListenerAddress(e.name, e.host, e.port, e.security_protocol) for e in broker.listeners
    )
    info = BrokerInfo(broker.id, endpoints, broker.rack, image.provenance.timestamp_ms)
    return Znode(info.encode(), ephemeral=True)


def topic_znodes(topic: TopicImage, image: MetadataImage) -> Iterator[tuple[str, Znode]]:
    """The znodes of one topic in the order in which a new topic is written."""
    yield TopicAssignment.path(topic.name), render_assignment(topic)
    yield EntityConfig.topic_path(topic.name), render_topic_config(image, topic.name)
    yield PartitionState.parent(topic.name), Znode(None)
    for partition, state in sorted(topic.partitions.items()):
        yield PartitionState.partition_path(topic.name, partition), Znode(None)
        yield PartitionState.path(topic.name, partition), render_state(state, image)


def render_assignment(topic: TopicImage) -> Znode:
    partitions = sorted(topic.partitions.items())
    assignment = TopicAssignment(
        topic.id,
        {number: p.replicas for number, p in partitions},
        {number: p.adding for number, p in partitions if p.adding},
        {number: p.removing for number, p in partitions if p.removing},
    )
    return Znode(assignment.encode())


def render_state(partition: PartitionImage, image: MetadataImage) -> Znode:
    state = PartitionState(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        controller_epoch=max(image.provenance.epoch, 0),
        leader_recovery_state=partition.leader_recovery_state,
    )
    return Znode(state.encode())


def render_topic_config(image: MetadataImage, topic: str) -> Znode:
    config = image.configs.by_resource.get((TOPIC_RESOURCE, topic))
    return Znode(EntityConfig(dict(config or {})).encode())


def render_broker_config(image: MetadataImage, name: str) -> Znode | None:
    """`name` is a broker id as text, empty for all brokers; None while it has no configs."""
    config = image.configs.by_resource.get((BROKER_RESOURCE, name))
    if not config:
        return None
    return Znode(EntityConfig({k: v for k, v in config.items() if not is_sensitive(k)}).encode())


def render_producer_ids(image: MetadataImage) -> Znode:
    """No data until the first block is given out."""
    next_id = image.producer_ids.next_producer_id
    return Znode(ProducerIdBlock(next_id).encode() if next_id >= 0 else None)


def _by_id(brokers: Mapping[int, BrokerRegistration]) -> list[BrokerRegistration]:
    return [broker for _, broker in sorted(brokers.items())]

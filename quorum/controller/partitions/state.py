"""The state that decisions about partitions read: the image, its index, and the configs that govern leadership.

A decision uses the state in its turn and keeps no reference to it: the index changes with the next records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trimaran.node.config.server import ServerConfig
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.metadata.image import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from trimaran.wire.identity import BrokerId, TopicIdPartition

MIN_IN_SYNC_REPLICAS = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"

MayLead = Callable[[BrokerId], bool]


class PartitionRef(NamedTuple):
    """A partition together with its topic and its number."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage

    @property
    def key(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic.id, self.partition_id)


@dataclass(frozen=True, slots=True)
class ControllerState:
    """The state of one decision. `index` is built from `image`; `config` is this controller's, the default if neither
    topic nor cluster sets a config.
    """

    image: MetadataImage
    index: PartitionIndex
    config: ServerConfig
    # the results of `allows_unclean` and `min_isr` by topic: decisions read them for thousands of partitions
    _unclean: dict[str, bool] = field(default_factory=dict, init=False, compare=False)
    _min_isr: dict[str, int] = field(default_factory=dict, init=False, compare=False)

    @property
    def has_eligible_leaders(self) -> bool:
        """Returns whether eligible leader replicas are kept (KIP-966)."""
        return self.image.features.keeps_eligible_leaders

    def min_isr(self, topic: TopicImage) -> int:
        """Returns min.insync.replicas of a topic, capped at its number of replicas."""
        known = self._min_isr.get(topic.name)
        if known is None:
            wanted = int(self._config_of(topic.name, MIN_IN_SYNC_REPLICAS))
            first = topic.partitions.get(0)
            known = wanted if first is None else min(wanted, len(first.replicas))
            self._min_isr[topic.name] = known
        return known

    def allows_unclean(self, topic: TopicImage) -> bool:
        """Returns whether a replica that may lack committed records can be elected when there is no other."""
        allows = self._unclean.get(topic.name)
        if allows is None:
            allows = self._config_of(topic.name, UNCLEAN_LEADER_ELECTION).lower() == "true"
            self._unclean[topic.name] = allows
        return allows

    def _config_of(self, topic: str, key: str) -> str:
        """Returns the config of the topic, otherwise this controller's dynamic config, the cluster default, or the
        value in the file, in this order.
        """
        configs = self.image.configs
        for value in (
            configs.of(TOPIC_RESOURCE, topic).get(key),
            configs.of(BROKER_RESOURCE, str(self.config.node_id)).get(key),
            configs.of(BROKER_RESOURCE, "").get(key),
        ):
            if value is not None:
                return value
        return str(self.config[key])

    def partition_refs(self, keys: Iterable[TopicIdPartition]) -> Iterator[PartitionRef]:
        """Yields the partitions of `keys` that still exist."""
        for topic_id, number in keys:
            topic = self.image.topics.by_id.get(topic_id)
            if topic is not None and (partition := topic.partitions.get(number)) is not None:
                yield PartitionRef(topic, number, partition)

    def may_lead(self, partition: PartitionImage, returning: BrokerId | None = None) -> MayLead:
        """Returns the predicate of brokers that may lead: active brokers and one that is about to be unfenced, if the
        partition's directory is online there.
        """
        brokers = self.image.cluster.brokers

        def check(broker_id: BrokerId) -> bool:
            broker = brokers.get(broker_id)
            return (
                broker is not None
                and not broker.in_controlled_shutdown
                and (not broker.fenced or broker_id == returning)
                and broker.has_online(partition.directory_of(broker_id))
            )

        return check

"""The latest offsets of partitions that any broker may lead: read here, or requested from their leaders by ListOffsets.

Source: Kafka's `NetworkPartitionMetadataClient`. Intentional difference: a request that fails is not repeated, because
only administrators request lags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

import trio

from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.partitions.opening import opening
from trimaran.broker.partitions.registry import Partitions
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId, Offset, TopicPartition
from trimaran.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from trimaran.wire.transport.scheduling.effects import Blocking, Handling

E = ErrorCode
LATEST = -1
CONSUMER = BrokerId(-1)

Latest = dict[TopicPartition, Offset | ErrorCode]
"""The high watermark of each partition, or the error."""


class LatestOffsets:
    """Finds the high watermarks of partitions. `channels` reach other brokers; `seconds` bounds a request to one."""

    def __init__(
        self,
        node_id: BrokerId,
        partitions: Partitions,
        channels: Channels,
        metadata: BrokerMetadata,
        seconds: float,
    ) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._channels = channels
        self._metadata = metadata
        self._seconds = seconds

    def asking(self, keys: Collection[TopicPartition]) -> Handling[Latest]:
        """Returns the high watermarks, without a wait if this broker leads all partitions."""
        found: Latest = {}
        elsewhere: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        here = []
        for key in keys:
            leader = self._leader(key)
            if leader == self._node_id:
                here.append(key)
            elif leader == NO_LEADER:
                found[key] = E.LEADER_NOT_AVAILABLE
            else:
                elsewhere[leader].append(key)
            yield None
        yield from opening(self._partitions, here)
        for key in here:
            found[key] = self._here(key)
            yield None
        if elsewhere:
            found |= yield Blocking(lambda: self._ask_all(elsewhere))
        return found

    def _leader(self, key: TopicPartition) -> BrokerId:
        topic = self._metadata.image.topics.by_name.get(key.topic)
        partition = None if topic is None else topic.partitions.get(key.partition)
        return NO_LEADER if partition is None else partition.leader

    def _here(self, key: TopicPartition) -> Offset | ErrorCode:
        try:
            return self._partitions.leader_of(key).high_watermark.offset
        except KafkaError as error:
            return error.code

    async def _ask_all(self, by_leader: dict[BrokerId, list[TopicPartition]]) -> Latest:
        found: Latest = {}

        async def ask(leader: BrokerId, keys: list[TopicPartition]) -> None:
            found.update(await self._ask(leader, keys))

        async with trio.open_nursery() as nursery:
            for leader, keys in by_leader.items():
                nursery.start_soon(ask, leader, keys)
        return found

    async def _ask(self, leader: BrokerId, keys: list[TopicPartition]) -> Latest:
        request = ListOffsetsRequest(
            replica_id=CONSUMER, isolation_level=0, topics=list(_by_topic(keys))
        )
        try:
            response = await self._channels.call(leader, request, timeout=self._seconds)
        except (NotSent, OutcomeUnknown):
            return dict.fromkeys(keys, E.NETWORK_EXCEPTION)
        assert isinstance(response, ListOffsetsResponse)
        found: Latest = dict.fromkeys(keys, E.UNKNOWN_TOPIC_OR_PARTITION)
        for topic in response.topics:
            for partition in topic.partitions:
                key = TopicPartition(topic.name, partition.partition_index)
                code = ErrorCode.of(partition.error_code)
                if key in found:
                    found[key] = code or partition.offset
        return found


def _by_topic(keys: Iterable[TopicPartition]) -> Iterable[ListOffsetsTopic]:
    partitions: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for name, index in keys:
        partitions[name].append(ListOffsetsPartition(partition_index=index, timestamp=LATEST))
    for name, mine in partitions.items():
        yield ListOffsetsTopic(name=name, partitions=mine)

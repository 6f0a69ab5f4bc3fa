"""The dead-letter queues of share groups (KIP-1191): carries out the steps of `Delivery` with the controller, the
leaders of queues and the local log.

As in Kafka, this broker produces like any client: its own principal needs the right to write to the topic, even if this
broker is the leader. Source: `ShareGroupDLQStateManager`, `ShareGroupDLQMetadataCacheHelper`.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

import trio

from trimaran.broker import events
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.metadata.topic_settings import TopicSettingsSource
from trimaran.broker.partitions.leader import PartitionLeader
from trimaran.broker.sharing.acknowledging import DeadLetters
from trimaran.broker.sharing.counts import ShareCounts
from trimaran.broker.sharing.dead_letters import (
    Copies,
    CreateQueue,
    Delivery,
    PauseDelivery,
    Queue,
    QueueTopic,
    ReadRecords,
    Source,
    Undelivered,
    Unwritten,
    WriteLetters,
    joined,
)
from trimaran.broker.sharing.feature import has_dead_letter_queues
from trimaran.broker.sharing.letter_copies import copies_of
from trimaran.log.batches.records import build_batch
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.quorum.metadata.image import GROUP_RESOURCE, NO_LEADER, MetadataImage, TopicImage
from trimaran.quorum.serving.node_configs import NodeConfigs
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerId
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

log = logging.getLogger(__name__)

E = ErrorCode
ACKS_ALL = -1
# The timeout in Produce requests, as in Kafka.
PRODUCE_SECONDS = 30.0
# The time in which the controller must create the topic, and this broker must receive its metadata.
CREATE_SECONDS = 5.0
# The maximum number of deliveries that read, create or write at the same time. Each has a batch of at most
# `max.message.bytes` of its queue.
AT_WORK_MAX = 16


class DeadLetterQueues:
    """Writes dead letters to the queues that groups name. Letters are produced over `channels`, which must be running.
    At most `AT_WORK_MAX` deliveries have records in memory at the same time; others wait.
    """

    def __init__(
        self,
        channels: Channels,
        controller: ControllerCalls,
        metadata: BrokerMetadata,
        configs: NodeConfigs,
        settings: TopicSettingsSource,
        now_ms: Callable[[], int],
        counts: ShareCounts,
    ) -> None:
        self._channels = channels
        self._controller = controller
        self._metadata = metadata
        self._configs = configs
        self._settings = settings
        self._now_ms = now_ms
        self._counts = counts
        self._room = trio.Semaphore(AT_WORK_MAX)

    @property
    def are_served(self) -> bool:
        """Whether the cluster has the feature."""
        return has_dead_letter_queues(self._metadata.image.features)

    async def deliver(
        self,
        group_id: str,
        leader: PartitionLeader,
        letters: Sequence[DeadLetters],
    ) -> None:
        """Writes letters about records of `leader` to the queue of the group. Letters that cannot be written are lost,
        and the broker logs this.
        """
        name, partition = leader.replica.topic_partition
        source = Source(group_id, name, partition)
        delivery = Delivery(
            source, joined(letters), lambda: self.queue_of(group_id), self._now_ms, random.random
        )
        try:
            await self._carry_out(group_id, delivery, leader)
        except Undelivered as error:
            self._counts.of(group_id).failed_letter_produces += isinstance(error, Unwritten)
            events.DEAD_LETTERS_LOST.log(
                log, group=group_id, partition=leader.replica.name, error=str(error)
            )

    async def _carry_out(self, group_id: str, delivery: Delivery, leader: PartitionLeader) -> None:
        steps, answer = delivery.steps(), None
        while True:
            async with self._room:
                try:
                    step = steps.send(answer)
                    while not isinstance(step, PauseDelivery):
                        step = steps.send(await self._answer(group_id, step, leader))
                except StopIteration:
                    return
            await trio.sleep(step.seconds)

    async def _answer(
        self,
        group_id: str,
        step: CreateQueue | ReadRecords | WriteLetters,
        leader: PartitionLeader,
    ) -> ErrorCode | Copies:
        if isinstance(step, ReadRecords):
            return await copies_of(leader, step)
        if isinstance(step, CreateQueue):
            return await self._create(step.name)
        code = await self._write(step)
        counts = self._counts.of(group_id)
        counts.letter_produces += 1
        if code is E.NONE:
            counts.letters += len(step.records)
        return code

    # -- the queue

    def queue_of(self, group_id: str) -> Queue:
        """Returns the queue as the configuration and the metadata have it now."""
        image = self._metadata.image
        own = image.configs.of(GROUP_RESOURCE, group_id)

        def of_group(name: str) -> object:
            known = GROUP_CONFIGS[name]
            return known.parse(own[name]) if name in own else known.default

        name = str(of_group("errors.deadletterqueue.topic.name"))
        topic = image.topics.by_name.get(name)
        return Queue(
            name,
            str(self._configs.now("errors.deadletterqueue.topic.name.prefix")),
            bool(self._configs.now("errors.deadletterqueue.auto.create.topics.enable")),
            bool(of_group("errors.deadletterqueue.copy.record.enable")),
            None if topic is None else self._topic(image, topic),
        )

    def _topic(self, image: MetadataImage, topic: TopicImage) -> QueueTopic:
        def live(leader: BrokerId) -> BrokerId:
            broker = image.cluster.brokers.get(leader)
            return NO_LEADER if broker is None or broker.fenced else leader

        return QueueTopic(
            topic.id,
            bool(self._settings.value(topic.name, "errors.deadletterqueue.group.enable")),
            [live(topic.partitions[index].leader) for index in range(len(topic.partitions))],
            int(self._settings.value(topic.name, "max.message.bytes")),
        )

    async def _create(self, name: str) -> ErrorCode:
        configs = {
            "errors.deadletterqueue.group.enable": "true",
            "message.timestamp.type": "CreateTime",
        }
        topic = CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=text) for key, text in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(CREATE_SECONDS * 1000))
        try:
            response = await self._controller.call(request, timeout=CREATE_SECONDS)
        except KafkaError:
            return E.NETWORK_EXCEPTION
        assert isinstance(response, CreateTopicsResponse)
        codes = [each.error_code for each in response.topics if each.name == name]
        code = ErrorCode.of(codes[0]) if codes else E.UNKNOWN_TOPIC_OR_PARTITION
        if code is E.NONE:
            with trio.move_on_after(CREATE_SECONDS):
                await self._metadata.wait_for(lambda image: name in image.topics.by_name)
        return code

    # -- letters

    async def _write(self, step: WriteLetters) -> ErrorCode:
        data = PartitionProduceData(index=step.partition, records=build_batch(step.records))
        request = ProduceRequest(
            acks=ACKS_ALL,
            timeout_ms=int(PRODUCE_SECONDS * 1000),
            topic_data=[
                TopicProduceData(name=step.name, topic_id=step.topic_id, partition_data=[data])
            ],
        )
        try:
            response = await self._channels.call(step.leader, request, timeout=PRODUCE_SECONDS)
        except (NotSent, OutcomeUnknown):
            return E.NETWORK_EXCEPTION
        assert isinstance(response, ProduceResponse)
        for topic in response.responses:
            for answered in topic.partition_responses:
                if answered.index == step.partition:
                    return ErrorCode.of(answered.error_code)
        return E.UNKNOWN_SERVER_ERROR

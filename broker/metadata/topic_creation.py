"""Creates missing topics that a request needs: `auto.create.topics.enable`, and internal topics.

Source: `AutoTopicCreationManager` of Kafka. Kafka answers immediately; here the request waits until the topic is in the
broker's image, so that the next request finds it, or until the controller has refused it, which the response reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

import trio

from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.broker.channels.forwarding import Forwarder
from trimaran.broker.metadata.internal_topics import (
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.node.config.server import ServerConfig
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from trimaran.wire.transport.requests.calls import Call

# The maximum delay of a Metadata or FindCoordinator response by a creation; the client must then retry.
CREATE_SECONDS = 5.0
# The version of CreateTopics; every controller that accepts this broker supports it.
VERSION = 7


# The maximum number of failed topics to remember, as in Kafka.
FAILURES_REMEMBERED = 1_000


class _Failure(NamedTuple):
    """The reason why a topic could not be created, and the time until which it is not tried again."""

    reason: str
    until: float


class TopicCreation:
    """Creates topics with one controller request per call; waits for topics that another call is creating."""

    def __init__(
        self, controller: ControllerCalls, metadata: BrokerMetadata, config: ServerConfig
    ) -> None:
        self._controller = controller
        self._forwarder = Forwarder(controller, CREATE_SECONDS)
        self._metadata = metadata
        self._config = config
        self._under_way: dict[str, trio.Event] = {}
        self._failed: dict[str, _Failure] = {}

    async def create(self, names: Iterable[str], call: Call | None = None) -> dict[str, ErrorCode]:
        """Creates the topics; NONE means that the image now has the topic. With the `call` of a client they are charged
        to its `controller_mutation_rate`, as in Kafka; internal topics are not charged to any client.

        The errors are those of Metadata and FindCoordinator: after UNKNOWN_TOPIC_OR_PARTITION the client retries;
        INVALID_TOPIC_EXCEPTION and INVALID_REPLICATION_FACTOR are permanent.
        """
        wanted = list(dict.fromkeys(names))
        codes = dict.fromkeys(wanted, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        others = {name: self._under_way[name] for name in wanted if name in self._under_way}
        mine = [name for name in wanted if name not in others]
        done = trio.Event()
        self._under_way.update(dict.fromkeys(mine, done))
        try:
            with trio.move_on_after(CREATE_SECONDS):
                if mine:
                    codes |= await self._ask(mine, call)
                for name in mine:
                    if codes[name] is ErrorCode.NONE:
                        await self._metadata.wait_for(lambda image: name in image.topics.by_name)  # noqa: B023
        finally:
            for name in mine:
                del self._under_way[name]
            done.set()
        with trio.move_on_after(CREATE_SECONDS):
            for name, event in others.items():
                await event.wait()
                if name in self._metadata.image.topics.by_name:
                    codes[name] = ErrorCode.NONE
        return codes

    async def create_for_client(
        self, topics: Mapping[str, CreatableTopic], call: Call, seconds: float
    ) -> dict[str, str]:
        """Creates topics as a client of `call`. Returns the reasons for those that could not be created, by name;
        the next attempt follows after `seconds` at the earliest. Source: Kafka's `createStreamsInternalTopics`.
        """
        now = trio.current_time()
        self._failed = {name: one for name, one in self._failed.items() if one.until > now}
        wanted = {
            name: topic
            for name, topic in topics.items()
            if name not in self._failed and name not in self._under_way
        }
        if wanted:
            await self._create_for_client(wanted, call, now + seconds)
        return {name: self._failed[name].reason for name in topics if name in self._failed}

    async def _create_for_client(
        self, wanted: Mapping[str, CreatableTopic], call: Call, until: float
    ) -> None:
        done = trio.Event()
        self._under_way.update(dict.fromkeys(wanted, done))
        request = CreateTopicsRequest(
            topics=list(wanted.values()), timeout_ms=int(CREATE_SECONDS * 1000)
        )
        reasons: dict[str, str] = {}
        try:
            with trio.move_on_after(CREATE_SECONDS):
                for topic in (await self._asked(request, call)).topics:
                    code = ErrorCode.of(topic.error_code)
                    if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                        reasons[topic.name] = topic.error_message or code.sentence
                for name in wanted.keys() - reasons.keys():
                    await self._metadata.wait_for(lambda image: name in image.topics.by_name)  # noqa: B023
        except KafkaError as error:
            reasons = dict.fromkeys(wanted, error.message or error.code.sentence)
        finally:
            for name in wanted:
                del self._under_way[name]
            done.set()
        room = FAILURES_REMEMBERED - len(self._failed)
        self._failed.update(
            (name, _Failure(reason, until)) for name, reason in islice(reasons.items(), room)
        )

    async def _ask(self, names: list[str], call: Call | None) -> dict[str, ErrorCode]:
        request = CreateTopicsRequest(
            topics=[self._creatable(name) for name in names],
            timeout_ms=int(CREATE_SECONDS * 1000),
        )
        try:
            response = await self._asked(request, call)
        except KafkaError:
            return {}
        return {topic.name: _visible(topic.error_code) for topic in response.topics}

    async def _asked(self, request: CreateTopicsRequest, call: Call | None) -> CreateTopicsResponse:
        if call is not None:
            return await self._forwarder.ask_for(call, request, VERSION, CreateTopicsResponse)
        response = await self._controller.call(request, timeout=CREATE_SECONDS)
        assert isinstance(response, CreateTopicsResponse)
        return response

    def _creatable(self, name: str) -> CreatableTopic:
        if name == CONSUMER_OFFSETS:
            return self._offsets_topic()
        if name == TRANSACTION_STATE:
            return self._transactions_topic()
        if name == SHARE_GROUP_STATE:
            return self._share_states_topic()
        return CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
        )

    def _offsets_topic(self) -> CreatableTopic:
        config = self._config
        return _internal(
            CONSUMER_OFFSETS,
            config["offsets.topic.num.partitions"],
            config["offsets.topic.replication.factor"],
            {
                "segment.bytes": config["offsets.topic.segment.bytes"],
                "compression.type": "producer",
            },
        )

    def _transactions_topic(self) -> CreatableTopic:
        """Limits min.insync.replicas to the number of replicas: otherwise the topic would accept no writes."""
        config = self._config
        replicas = config["transaction.state.log.replication.factor"]
        return _internal(
            TRANSACTION_STATE,
            config["transaction.state.log.num.partitions"],
            replicas,
            {
                "segment.bytes": config["transaction.state.log.segment.bytes"],
                "compression.type": "uncompressed",
                "min.insync.replicas": min(config["transaction.state.log.min.isr"], replicas),
                "unclean.leader.election.enable": "false",
            },
        )

    def _share_states_topic(self) -> CreatableTopic:
        """Returns the configs of the topic. It is not compacted, because an update does not replace the previous one;
        the share coordinator deletes redundant records. Limits min.insync.replicas as `_transactions_topic` does.
        """
        config = self._config
        replicas = config["share.coordinator.state.topic.replication.factor"]
        return _internal(
            SHARE_GROUP_STATE,
            config["share.coordinator.state.topic.num.partitions"],
            replicas,
            {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": config["share.coordinator.state.topic.segment.bytes"],
                "min.insync.replicas": min(
                    config["share.coordinator.state.topic.min.isr"], replicas
                ),
                "retention.ms": -1,
            },
        )


def _internal(
    name: str, partitions: int, replicas: int, configs: Mapping[str, object]
) -> CreatableTopic:
    configs = {"cleanup.policy": "compact", **configs}
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key, value=str(value)) for key, value in configs.items()
        ],
    )


def _visible(code: int) -> ErrorCode:
    """Converts the controller's error to the error for the client."""
    error = ErrorCode.of(code)
    if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ErrorCode.NONE
    if error in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR):
        return error
    if error.retriable or error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error

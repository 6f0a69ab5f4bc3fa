"""Creates topics that somebody wants and that are not there: `auto.create.topics.enable`, and internal topics.

Source: `AutoTopicCreationManager` of Kafka. Kafka answers at once and lets the client ask again; here who asks waits
until the topic is in the broker's image, or the controller has refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from broker.channels.controller_channel import Controller
from broker.metadata.internal_topics import CONSUMER_OFFSETS
from broker.metadata.metadata_cache import BrokerMetadata
from node.config.server import ServerConfig
from wire.errors import ErrorCode, KafkaError
from wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

# How long somebody's Metadata or FindCoordinator is held up by a creation; then it is told to ask again.
CREATE_SECONDS = 5.0


class TopicCreation:
    """One request to the controller for all names of a call; names under way are waited for, not asked for again."""

    def __init__(
        self, controller: Controller, metadata: BrokerMetadata, config: ServerConfig
    ) -> None:
        self._controller = controller
        self._metadata = metadata
        self._config = config
        self._under_way: dict[str, trio.Event] = {}

    async def create(self, names: Iterable[str]) -> dict[str, ErrorCode]:
        """Creates the topics; NONE means that the image has it now.

        Errors are those that Metadata and FindCoordinator answer: UNKNOWN_TOPIC_OR_PARTITION asks the client to try
        again; INVALID_TOPIC_EXCEPTION and INVALID_REPLICATION_FACTOR do not pass by themselves.
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
                    codes |= await self._ask(mine)
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

    async def _ask(self, names: list[str]) -> dict[str, ErrorCode]:
        request = CreateTopicsRequest(
            topics=[self._creatable(name) for name in names],
            timeout_ms=int(CREATE_SECONDS * 1000),
        )
        try:
            response = await self._controller.call(request, timeout=CREATE_SECONDS)
        except KafkaError:
            return {}
        assert isinstance(response, CreateTopicsResponse)
        return {topic.name: _visible(topic.error_code) for topic in response.topics}

    def _creatable(self, name: str) -> CreatableTopic:
        if name == CONSUMER_OFFSETS:
            return CreatableTopic(
                name=name,
                num_partitions=self._config["offsets.topic.num.partitions"],
                replication_factor=self._config["offsets.topic.replication.factor"],
                assignments=[],
                configs=self._offsets_topic_configs(),
            )
        return CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=[], configs=[]
        )

    def _offsets_topic_configs(self) -> list[CreatableTopicConfig]:
        value_of: Callable[[str], object] = self._config.__getitem__
        configs = {
            "cleanup.policy": "compact",
            "segment.bytes": value_of("offsets.topic.segment.bytes"),
            "compression.type": "producer",
        }
        return [CreatableTopicConfig(name=key, value=str(value)) for key, value in configs.items()]


def _visible(code: int) -> ErrorCode:
    """What a client is told of the controller's refusal."""
    error = ErrorCode.of(code)
    if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return ErrorCode.NONE
    if error in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_REPLICATION_FACTOR):
        return error
    if error.retriable or error is ErrorCode.REQUEST_TIMED_OUT:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return error

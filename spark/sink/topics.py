"""The topics to which a task writes: their partitions and leaders, and their creation if the options require it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from trimaran.spark.data_source.write_failed import WriteFailed
from trimaran.spark.sink.options import CreatedTopics
from trimaran.wire.client.calls import RETRIED
from trimaran.wire.client.destinations import AnyNode, ControllerNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

CREATE_TIMEOUT_MS = 30_000
RETRY_SECONDS = 0.1
# Errors about a topic that may exist or be available in a moment.
NOT_YET = RETRIED | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


class WrittenTopic(NamedTuple):
    """A topic with the leader of each of its partitions; -1 for none."""

    name: str
    leaders: list[NodeId]


class WrittenTopics:
    """Finds topics by name, and creates missing ones if required."""

    def __init__(
        self, client: BlockingClient, creation: CreatedTopics | None, block_seconds: float
    ) -> None:
        self._client = client
        self._creation = creation
        self._block_seconds = block_seconds

    def find(self, name: str) -> WrittenTopic:
        """Returns a topic; a missing one is created if the options, or the brokers' own settings, require it.

        Raises:
            WriteFailed: the topic does not exist within `kafka.max.block.ms`, or this user may not see it.
        """
        deadline = time.monotonic() + self._block_seconds
        is_created = False
        while True:
            # As with Kafka's producer, auto.create.topics.enable of a broker applies to the request.
            wanted = MetadataRequest(
                topics=[MetadataRequestTopic(name=name)],
                allow_auto_topic_creation=self._creation is None,
            )
            response = self._client.call(AnyNode(), wanted)
            topic = single_item(response.topics, "topic")
            code = topic.error_code
            if not code and topic.partitions:
                self._client.routing.update_metadata(response)
                ordered = sorted(topic.partitions, key=lambda p: p.partition_index)
                return WrittenTopic(name, [NodeId(p.leader_id) for p in ordered])
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and self._creation and not is_created:
                create_topic(self._client, name, self._creation)
                is_created = True
                continue
            if code not in NOT_YET or time.monotonic() >= deadline:
                raise WriteFailed(self._why(name, code))
            time.sleep(min(RETRY_SECONDS, max(0.0, deadline - time.monotonic())))

    def _why(self, name: str, code: int) -> str:
        what = f"topic {name}: {ErrorCode.of(code).name}"
        if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return what
        return (
            f"{what}: there was no such topic within {self._block_seconds:g} s (kafka.max.block.ms); create it, or set "
            "createTopics.partitions"
        )


def create_topic(
    client: BlockingClient,
    name: str,
    creation: CreatedTopics,
    configs: dict[str, str] | None = None,
) -> None:
    """Creates a topic unless it exists. Raises WriteFailed."""
    topic = CreatableTopic(
        name=name,
        num_partitions=creation.partitions,
        replication_factor=creation.replication_factor,
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_TIMEOUT_MS)
    try:
        response = client.call(ControllerNode(), request)
    except KafkaError as error:
        raise WriteFailed(f"topic {name} could not be created: {error}") from None
    found = single_item(response.topics, "topic")
    if found.error_code and found.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
        why = found.error_message or ""
        raise WriteFailed(
            f"topic {name} could not be created: {ErrorCode.of(found.error_code).name} {why}".rstrip()
        )

"""Reads and stores the states of all share partitions: in the coordinator of this broker, or by requests to others.

Requests for many share partitions of a group go to a broker together. A request that fails because the coordinator
moves, loads or cannot be reached is repeated a few times; every request may be repeated without harm. The first request
creates the topic. Source: Kafka's `DefaultStatePersister`, `PersisterStateManager`.
"""

from __future__ import annotations

import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import trio

from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.channels.gathering import Gathering
from trimaran.broker.coordination.ports import Metadata
from trimaran.broker.metadata.internal_topics import SHARE_GROUP_STATE
from trimaran.broker.share_state import rpcs
from trimaran.broker.share_state.coordinator import ShareCoordinator
from trimaran.broker.share_state.rpcs import Rpc
from trimaran.broker.share_state.states import ShareState, ShareSummary, StateBatch
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.runtime.pacing import run_paced
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.metadata.image import NO_LEADER
from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import (
    BrokerId,
    LeaderEpoch,
    Offset,
    SharePartitionKey,
    StateEpoch,
    TopicIdPartition,
)
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)

T = TypeVar("T")
E = ErrorCode

# The attempts of a request, and the delays between them: half a minute in total, as in Kafka. The error after the last
# attempt ends a Java share consumer.
ATTEMPTS_MAX = 12
RETRY_SECONDS = 0.1
RETRY_SECONDS_MAX = 5.0

# After these codes the same request may succeed. An unknown topic is one that the coordinator does not know yet.
RETRIED = frozenset(
    {
        E.COORDINATOR_NOT_AVAILABLE,
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.NOT_COORDINATOR,
        E.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class CreatesTopics(Protocol):
    """The part of `TopicCreation` that makes the topic."""

    async def create(self, names: Iterable[str]) -> dict[str, ErrorCode]: ...


class _Asked(NamedTuple, Generic[T]):
    """A request about one share partition: `item` makes its part of `rpc`, `here` calls this broker's coordinator."""

    rpc: Rpc[T]
    key: SharePartitionKey
    item: Callable[[], Any]
    here: Callable[[], PendingResponse[T] | Steps[PendingResponse[T]]]


class StatePersister:
    """The `ShareStates` of a broker; `run` must be running."""

    def __init__(
        self,
        node_id: BrokerId,
        coordinator: ShareCoordinator,
        channels: Channels,
        metadata: Metadata,
        topic_creation: CreatesTopics,
        seconds: float,
    ) -> None:
        """`seconds` is the timeout of requests to other brokers."""
        self._node_id = node_id
        self._coordinator = coordinator
        self._channels = channels
        self._metadata = metadata
        self._topic_creation = topic_creation
        self._seconds = seconds
        self._gathering = Gathering[_Asked[Any], Any](
            self._send, lambda question: (question.rpc, question.key)
        )
        self.run = self._gathering.run

    # -- ShareStates

    async def initialize(
        self, key: SharePartitionKey, state_epoch: StateEpoch, start_offset: Offset | None
    ) -> None:
        """Stores a state without batches."""
        await self._ask(
            _Asked(
                rpcs.INITIALIZE,
                key,
                lambda: rpcs.initialize_item(key, state_epoch, start_offset),
                lambda: self._coordinator.initialize(key, state_epoch, start_offset),
            )
        )

    async def read(self, key: SharePartitionKey, leader_epoch: LeaderEpoch) -> ShareState:
        """Returns the state; from now on, writes of earlier leaders are refused. The leader epoch of the result is that
        of the request, and the count of complete deliveries is unknown.
        """
        state = await self._ask(
            _Asked(
                rpcs.READ,
                key,
                lambda: rpcs.read_item(key, leader_epoch),
                lambda: self._coordinator.read(key, leader_epoch),
            )
        )
        summary = state.summary._replace(leader_epoch=leader_epoch, delivery_complete_count=None)
        return state._replace(summary=summary)

    async def summary(self, key: SharePartitionKey, leader_epoch: LeaderEpoch) -> ShareSummary:
        """Returns the position, without fencing a leader."""
        return await self._ask(
            _Asked(
                rpcs.SUMMARY,
                key,
                lambda: rpcs.summary_item(key, leader_epoch),
                lambda: self._coordinator.summary(key),
            )
        )

    async def write(
        self, key: SharePartitionKey, summary: ShareSummary, batches: Sequence[StateBatch]
    ) -> None:
        """Stores a position, and the state of these batches; other batches from `summary.start_offset` on stay."""
        await self._ask(
            _Asked(
                rpcs.WRITE,
                key,
                lambda: rpcs.write_item(key, summary, batches),
                lambda: self._coordinator.write(key, summary, batches),
            )
        )

    async def delete(self, key: SharePartitionKey) -> None:
        """Deletes the state; no error if there is none."""
        await self._ask(
            _Asked(
                rpcs.DELETE,
                key,
                lambda: rpcs.delete_item(key),
                lambda: self._coordinator.delete(key),
            )
        )

    # -- attempts

    async def _ask(self, question: _Asked[T]) -> T:
        """Returns the response of the coordinator.

        Raises:
            KafkaError: its refusal, or the error of the last attempt; COORDINATOR_NOT_AVAILABLE if it was not reached.
        """
        backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX, uniform=random.random)
        while True:
            try:
                return await self._attempt(question)
            except KafkaError as error:
                if error.code not in RETRIED or backoff.failures + 1 >= ATTEMPTS_MAX:
                    raise
                log.debug("the state of %s: %s", question.key, error)
            await trio.sleep(backoff.failed())

    async def _attempt(self, question: _Asked[T]) -> T:
        """Sends the request to the current coordinator once. Raises KafkaError."""
        broker_id = await self._find(question.key)
        if broker_id == self._node_id:
            await self._coordinator.wait_loaded(question.key, self._seconds)
            return await self._here(question)
        try:
            response: T = await self._gathering.ask(broker_id, question)
        except (NotSent, OutcomeUnknown) as error:
            raise KafkaError(E.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        return response

    async def _here(self, question: _Asked[T]) -> T:
        began = time.monotonic()
        turn = self._coordinator.turns.take(question.key)
        try:
            await turn.wait()
            pending = question.here()
            if not isinstance(pending, PendingResponse):
                pending = await run_paced(pending)
        finally:
            turn.end()
        response = await pending.wait()
        if question.rpc is rpcs.WRITE:
            self._coordinator.write_times.observe(time.monotonic() - began)
        return response

    async def _find(self, key: SharePartitionKey) -> BrokerId:
        """Returns the broker that leads the key's partition; creates the topic if it is missing.

        Raises:
            KafkaError: COORDINATOR_NOT_AVAILABLE.
        """
        if SHARE_GROUP_STATE not in self._metadata.image.topics.by_name:
            code = (await self._topic_creation.create([SHARE_GROUP_STATE]))[SHARE_GROUP_STATE]
            if code:
                raise KafkaError(
                    E.COORDINATOR_NOT_AVAILABLE,
                    f"{SHARE_GROUP_STATE} could not be created: {code.name}",
                )
        image = self._metadata.image
        topic = image.topics.by_name.get(SHARE_GROUP_STATE)
        index = self._coordinator.partition_of(key)
        leader = NO_LEADER if topic is None else topic.partitions[index].leader
        broker = image.cluster.brokers.get(leader)
        if broker is None or broker.fenced:
            raise KafkaError(
                E.COORDINATOR_NOT_AVAILABLE, f"{SHARE_GROUP_STATE}-{index} has no live leader"
            )
        return leader

    # -- requests

    async def _send(self, broker_id: BrokerId, questions: Sequence[_Asked[Any]]) -> list[Any]:
        """Sends one request for each API and group. Returns the response or the exception of each question."""
        together: defaultdict[tuple[Rpc[Any], str], list[int]] = defaultdict(list)
        for number, question in enumerate(questions):
            together[question.rpc, question.key.group_id].append(number)
        outcomes: list[Any] = [None] * len(questions)

        async def send(rpc: Rpc[Any], group_id: str, numbers: list[int]) -> None:
            asked = [(questions[number].key, questions[number].item()) for number in numbers]
            found = await self._answers(broker_id, rpc, rpc.request_for(group_id, asked), asked)
            for number, outcome in zip(numbers, found, strict=True):
                outcomes[number] = outcome

        async with trio.open_nursery() as nursery:
            for (rpc, group_id), numbers in together.items():
                nursery.start_soon(send, rpc, group_id, numbers)
        return outcomes

    async def _answers(
        self,
        broker_id: BrokerId,
        rpc: Rpc[Any],
        request: Message,
        asked: Sequence[tuple[SharePartitionKey, Any]],
    ) -> list[Any]:
        try:
            response = await self._channels.call(broker_id, request, timeout=self._seconds)
        except (NotSent, OutcomeUnknown) as error:
            return [error] * len(asked)
        found = rpc.outcomes_in(response)
        missing = KafkaError(
            E.UNKNOWN_SERVER_ERROR, f"broker {broker_id} has not answered for a share partition"
        )
        return [
            found.get(TopicIdPartition(key.topic_id, key.partition), missing) for key, _ in asked
        ]

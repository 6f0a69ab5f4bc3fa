"""Shared parts of the coordinators' clients: finding a coordinator, sending requests, and retrying."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from tests.simulation.coordinators.codes import code_of
from tests.simulation.coordinators.frames import Frames
from tests.simulation.coordinators.telling import brief
from tests.simulation.partitions.network import CLIENT, Lost
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from trimaran.wire.messages.end_txn import EndTxnRequest
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.join_group import JoinGroupRequest
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.coordinators.broker import CoordinatorBroker
    from tests.simulation.coordinators.world import CoordinatorWorld
    from tests.simulation.partitions.checker import Key

E = ErrorCode
GROUP, TRANSACTION = 0, 1
REQUEST_SECONDS = 0.9
PAUSE_SECONDS = 0.04
ATTEMPTS_MAX = 60
RETRIABLE = frozenset(
    {
        *(E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR),
        *(E.CONCURRENT_TRANSACTIONS, E.REQUEST_TIMED_OUT, E.UNSTABLE_OFFSET_COMMIT),
        *(E.NETWORK_EXCEPTION, E.NOT_LEADER_OR_FOLLOWER, E.LEADER_NOT_AVAILABLE),
        *(E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        *(E.UNKNOWN_TOPIC_OR_PARTITION, E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH),
        E.KAFKA_STORAGE_ERROR,
    }
)


class Refused(Exception):
    """Raised for an error that is not retriable."""

    def __init__(self, code: int, response: Any = None) -> None:
        super().__init__(ErrorCode.of(code).name)
        self.code = ErrorCode.of(code)
        self.response = response


class GaveUp(Exception):
    """Raised if many attempts had no definite response, so that the outcome is unknown."""


class CoordinatorClient:
    def __init__(self, world: CoordinatorWorld, name: str) -> None:
        self.world = world
        self.name = name
        self._known: dict[tuple[int, str], int] = {}

    async def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        await trio.sleep(self.world.prng.uniform(0.5, 1.5) * seconds)

    async def ask(
        self, broker_id: int, request: Message, version: int, seconds: float = REQUEST_SECONDS
    ) -> Any:
        """Sends a request; returns the response, raises Lost."""
        broker: Any = self.world.brokers[broker_id]

        async def handle() -> Any:
            return await self._served(broker, request, version)

        # Up to `transaction.version` 1 a late EndTxn ends the next transaction (KAFKA-17754). A late heartbeat would
        # report that its member has revoked partitions that it received after sending it, and so would a late JoinGroup
        # in a group of both kinds. These requests are therefore never late here.
        is_end, faults = isinstance(request, EndTxnRequest), self.world.faults
        says_all = isinstance(request, ConsumerGroupHeartbeatRequest) or (
            isinstance(request, JoinGroupRequest) and self.world.rules.migrants > 0
        )
        may_be_late = not (is_end and not self.world.rules.bumps) and not says_all
        stuck = faults.stuck_ends if is_end else faults.stuck
        return await self.world.network.ask(
            CLIENT, broker, handle, seconds, may_be_late=may_be_late, stuck=stuck
        )

    async def _served(self, broker: CoordinatorBroker, request: Message, version: int) -> Any:
        checker = self.world.checker
        before = checker.arrives(broker, request)
        response = await Frames(broker, self.name, version).handle(request)
        if broker.alive:
            if self.world.trace is not None:
                self.world.say(broker.id, "→", self.name, brief(response), "to", brief(request))
            checker.answers(broker, request, version, response, before)
        return response

    def some_broker(self) -> int | None:
        serving = [broker.id for broker in self.world.brokers.values() if broker.is_serving]
        return self.world.prng.choice(serving) if serving else None

    # --- coordinators

    async def coordinator(self, kind: int, key: str) -> int | None:
        known = self._known.get((kind, key))
        if known is not None:
            return known
        asked = self.some_broker()
        if asked is None:
            return None
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        try:
            found = (await self.ask(asked, request, 4)).coordinators[0]
        except Lost:
            return None
        if found.error_code:
            return None
        self._known[kind, key] = found.node_id
        node: int = found.node_id
        return node

    async def ask_coordinator(
        self,
        kind: int,
        key: str,
        request: Message,
        version: int,
        *,
        seconds: float = REQUEST_SECONDS,
        attempts: int = ATTEMPTS_MAX,
    ) -> Any:
        """Returns the first response without an error; raises Refused, GaveUp."""
        for _ in range(attempts):
            broker_id = await self.coordinator(kind, key)
            if broker_id is not None:
                try:
                    response = await self.ask(broker_id, request, version, seconds)
                except Lost:
                    code = E.NETWORK_EXCEPTION
                else:
                    code = code_of(response)
                if not code:
                    return response
                if code not in RETRIABLE:
                    raise Refused(code, response)
                if code is not E.CONCURRENT_TRANSACTIONS:
                    self._known.pop((kind, key), None)
            await self.pause()
        raise GaveUp

    # --- leaders

    def leader_of(self, key: Key) -> tuple[int, int] | None:
        """Returns the leader and its epoch as known to some broker, which may be stale."""
        asked = self.some_broker()
        if asked is None:
            return None
        topic = self.world.brokers[asked].metadata.image.topics.by_id.get(key[0])
        state = None if topic is None else topic.partitions.get(key[1])
        if state is None or state.leader < 0:
            return None
        return state.leader, state.leader_epoch

    async def produce(
        self, key: Key, data: bytes, crc: int, transactional_id: str | None, version: int
    ) -> None:
        """Sends the batch until it is acknowledged; raises Refused, GaveUp."""
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=600,
            topic_data=[
                TopicProduceData(
                    name=self.world.name_of(key),
                    partition_data=[PartitionProduceData(index=key[1], records=memoryview(data))],
                )
            ],
        )
        for _ in range(ATTEMPTS_MAX):
            found = self.leader_of(key)
            if found is not None:
                try:
                    response = await self.ask(found[0], request, version)
                except Lost:
                    continue
                one = response.responses[0].partition_responses[0]
                if not one.error_code:
                    self.world.checker.acks(key, one.base_offset, crc)
                    return
                if one.error_code not in RETRIABLE:
                    raise Refused(one.error_code)
            await self.pause()
        raise GaveUp

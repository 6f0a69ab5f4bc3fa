"""Group members of either protocol: they send heartbeats in the background, and give up partitions in `settle`, that
is, when the application polls.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from tests.simulation.coordinators.client import (
    GROUP,
    CoordinatorClient,
    E,
    GaveUp,
    Refused,
)
from tests.simulation.coordinators.rules import INPUT
from trimaran.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from trimaran.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from trimaran.wire.messages.heartbeat import HeartbeatRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from trimaran.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from tests.simulation.coordinators.world import CoordinatorWorld

HEARTBEAT_SECONDS = 0.15
SESSION_MS, REBALANCE_MS = 800, 700
# Session timeout of static members, which may miss a generation and return.
STATIC_SESSION_MS = 2000
JOIN_SECONDS = 2.5


SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=[INPUT]), 1)


def _assignment(indexes: list[int]) -> bytes:
    of_topic = ConsumerProtocolAssignmentTopicPartition(topic=INPUT, partitions=indexes)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[of_topic]), 1)


def assigned(data: bytes) -> set[int]:
    """Returns the input partitions in a SyncGroup response."""
    if not data:
        return set()
    return {
        index
        for assigned_partition in decode_assignment(data).assigned_partitions
        for index in assigned_partition.partitions
    }


class Identity(NamedTuple):
    member_id: str
    generation: int
    is_consumer: bool


class Member(CoordinatorClient):
    """A member of a group; `owned` are the input partitions that it may read."""

    def __init__(self, world: CoordinatorWorld, name: str, group_id: str) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.owned: set[int] = set()
        self.is_frozen = False

    @property
    def instance_id(self) -> str | None:
        """The static member id; None for a dynamic member."""
        return None

    @property
    def identity(self) -> Identity:
        return Identity(self.member_id, self.generation, isinstance(self, ConsumerMember))

    async def run(self) -> None:
        while True:
            await self.pause(HEARTBEAT_SECONDS)
            if not self.is_frozen:
                with suppress(GaveUp):
                    await self._beat()

    async def settle(self) -> None:
        """Revokes and accepts partitions; must be called when no records are in progress. Raises GaveUp."""
        raise NotImplementedError

    async def leave(self) -> None:
        raise NotImplementedError

    def vanish(self) -> None:
        """Forgets the membership without leaving; the group notices at the end of the session."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        raise NotImplementedError

    async def _beat(self) -> None:
        raise NotImplementedError

    async def positions(self, topic: str, indexes: set[int]) -> dict[int, int]:
        """Returns the group's committed positions, without pending transactional commits; raises GaveUp, Refused."""
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=self.group_id,
                    topics=[
                        OffsetFetchRequestTopics(name=topic, partition_indexes=sorted(indexes))
                    ],
                )
            ],
            require_stable=True,
        )
        answer = await self.ask_coordinator(GROUP, self.group_id, request, 9)
        return {
            partition.partition_index: max(0, partition.committed_offset)
            for partition in answer.groups[0].topics[0].partitions
        }


class ClassicMember(Member):
    """A member of a classic group; a static one if it has an `instance_id` (KIP-345)."""

    def __init__(
        self, world: CoordinatorWorld, name: str, group_id: str, instance_id: str | None = None
    ) -> None:
        super().__init__(world, name, group_id)
        self._offsets = world.checker.offsets
        self._instance_id = instance_id
        self._must_join = True

    @property
    def instance_id(self) -> str | None:
        return self._instance_id

    def _begin_anew(self) -> None:
        self._offsets.stops_reading(self.group_id, self.member_id)
        self.member_id, self.generation = "", -1
        self.owned = set()
        self._must_join = True

    async def _beat(self) -> None:
        if self._must_join:
            return
        told = self.identity
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
        )
        try:
            await self.ask_coordinator(GROUP, self.group_id, request, 4, attempts=1)
        except Refused as refusal:
            if told == self.identity:
                self._lost(refusal)
        except GaveUp:
            self._must_join = self._must_join or self.world.prng.random() < 0.3

    def _lost(self, refusal: Refused) -> None:
        if refusal.code in (E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID):
            self._begin_anew()
        self._must_join = True

    async def settle(self) -> None:
        if not self._must_join:
            return
        self.owned = set()
        self._offsets.stops_reading(self.group_id, self.member_id)
        try:
            answer = await self._join()
            await self._sync(answer)
            self._must_join = False
            self.world.happened["joined"] += 1
        except Refused as refusal:
            if refusal.code is E.MEMBER_ID_REQUIRED:
                self.member_id = refusal.response.member_id
                return
            self._lost(refusal)

    async def _join(self) -> Any:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_MS if self._instance_id is None else STATIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        answer = await self.ask_coordinator(
            GROUP, self.group_id, request, 5, seconds=JOIN_SECONDS, attempts=3
        )
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, answer: Any) -> None:
        assignments: dict[str, list[int]] = {member.member_id: [] for member in answer.members}
        for index in range(self.world.rules.inputs if assignments else 0):
            ids = sorted(assignments)
            assignments[ids[(index + self.generation) % len(ids)]].append(index)
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=name, assignment=_assignment(indexes))
                for name, indexes in assignments.items()
            ],
        )
        synced = await self.ask_coordinator(
            GROUP, self.group_id, request, 3, seconds=JOIN_SECONDS, attempts=3
        )
        self.owned = assigned(synced.assignment)
        self._offsets.reads(self.group_id, self.member_id, self.owned)

    async def leave(self) -> None:
        request = LeaveGroupRequest(
            group_id=self.group_id, members=[MemberIdentity(member_id=self.member_id)]
        )
        self._begin_anew()
        with suppress(Refused, GaveUp):
            await self.ask_coordinator(GROUP, self.group_id, request, 4, attempts=2)


class ConsumerMember(Member):
    """A member of a consumer group (KIP-848), which chooses its own id and sends all fields in every heartbeat."""

    def __init__(self, world: CoordinatorWorld, name: str, group_id: str) -> None:
        super().__init__(world, name, group_id)
        self._lives = 0
        self._offsets = world.checker.offsets
        self._wanted: set[int] = set()
        self._beating = trio.Lock()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._lives += 1
        self._offsets.stops_reading(self.group_id, self.member_id)
        self.member_id, self.generation = f"{self.name}-{self._lives}", 0
        self.owned, self._wanted = set(), set()

    async def _beat(self) -> None:
        async with self._beating:
            await self._beat_once()

    async def _beat_once(self) -> None:
        topic_id = self.world.input_keys[0][0]
        owned = sorted(self.owned) if self.generation else []
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.generation,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["in"],
            topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=owned)]
            if owned
            else [],
        )
        try:
            answer = await self.ask_coordinator(GROUP, self.group_id, request, 1, attempts=2)
        except Refused as refusal:
            self.world.happened[f"member is told {refusal.code.name}"] += 1
            self._begin_anew()
            return
        if not self.generation:
            self.world.happened["joined"] += 1
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            self._wanted = {
                index
                for topic_partition in answer.assignment.topic_partitions
                for index in topic_partition.partitions
            }
            # New partitions are reported at once; revocations wait for `settle`.
            self.owned |= self._wanted
            self._offsets.reads(self.group_id, self.member_id, self.owned)

    async def settle(self) -> None:
        if self._wanted < self.owned:
            self.owned = set(self._wanted)
            self._offsets.reads(self.group_id, self.member_id, self.owned)
            await self._beat()

    async def leave(self) -> None:
        async with self._beating:
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.member_id, member_epoch=-1
            )
            self._begin_anew()
            with suppress(Refused, GaveUp):
                await self.ask_coordinator(GROUP, self.group_id, request, 1, attempts=2)


def member(
    world: CoordinatorWorld,
    name: str,
    group_id: str,
    *,
    is_consumer: bool,
    instance_id: str | None = None,
) -> Member:
    if is_consumer:
        return ConsumerMember(world, name, group_id)
    return ClassicMember(world, name, group_id, instance_id)

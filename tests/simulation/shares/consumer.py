"""A member of a share group: heartbeats, share sessions, fetches, and acknowledgements of all kinds. Now and then it
keeps records until their locks end, repeats a request, breaks a connection, or stops for a while.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import UUID

import trio

from tests.share_history import Kind
from tests.simulation.coordinators.client import (
    GROUP,
    REQUEST_SECONDS,
    CoordinatorClient,
    E,
    GaveUp,
    Refused,
)
from tests.simulation.coordinators.frames import Frames
from tests.simulation.coordinators.rules import INPUT
from tests.simulation.coordinators.telling import brief
from tests.simulation.partitions.network import CLIENT, Lost
from trimaran.wire.messages import share_acknowledge, share_fetch
from trimaran.wire.messages.share_acknowledge import ShareAcknowledgeRequest
from trimaran.wire.messages.share_fetch import ShareFetchRequest
from trimaran.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from trimaran.wire.transport.requests.calls import ConnectionInfo

if TYPE_CHECKING:
    from tests.simulation.partitions.checker import Key
    from tests.simulation.shares.world import SharesWorld

HEARTBEAT_SECONDS = 0.15
VERSION = 2
FREEZE_SECONDS = (0.6, 1.8)
FINAL_EPOCH = -1
# The decisions of a member that acknowledges records one by one.
DECISIONS = (Kind.ACCEPT, Kind.ACCEPT, Kind.ACCEPT, Kind.RELEASE, Kind.REJECT)
Held = dict[int, int]
"""Delivery counts of records by offset."""


class Session:
    """A share session with one broker, in the process `life`, on one connection."""

    def __init__(self, connection: ConnectionInfo, life: int) -> None:
        self.connection = connection
        self.life = life
        self.epoch = 0
        self.keys: set[Key] = set()
        # The member makes no decision about its held records until this time.
        self.keeps_until = 0.0
        self.held: dict[Key, Held] = {}


class ShareConsumer(CoordinatorClient):
    """A member; `is_frozen` stops it, heartbeats included."""

    world: SharesWorld

    def __init__(self, world: SharesWorld, name: str, group_id: str) -> None:
        super().__init__(world, name)
        self.group_id = group_id
        self.member_id = self._new_id()
        self.epoch = 0
        self.assigned: set[Key] = set()
        self.is_frozen = False
        self.is_away = False
        self._says_all = False
        self._sessions: dict[int, Session] = {}
        self._connections: list[ConnectionInfo] = []

    def _new_id(self) -> str:
        return str(UUID(int=self.world.prng.getrandbits(128)))

    # -- membership

    async def run(self) -> None:
        self.world.tasks.start(self._beat_forever)
        while True:
            await self.pause(0.03)
            if not self.is_frozen and not self.is_away:
                await self.turn()

    async def _beat_forever(self) -> None:
        while True:
            await self.pause(HEARTBEAT_SECONDS)
            if not self.is_frozen and not self.is_away:
                try:
                    await self._beat()
                except GaveUp:
                    self._says_all = True  # the lost response may have had an assignment

    async def _beat(self) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=[INPUT] if self.epoch == 0 or self._says_all else None,
        )
        try:
            response = await self.ask_coordinator(GROUP, self.group_id, request, 1, attempts=1)
        except Refused:
            self.epoch, self.assigned = 0, set()
            self.world.happened["member rejoins"] += 1
            return
        if request.member_id != self.member_id or self.is_away:
            return
        self.epoch, self._says_all = response.member_epoch, False
        if response.assignment is not None:
            self.assigned = {
                (topic.topic_id, index)
                for topic in response.assignment.topic_partitions
                for index in topic.partitions
            }
            self.world.happened["share member assigned"] += 1

    async def leave(self) -> None:
        """Ends the sessions, and then leaves the group."""
        self.is_away = True
        for broker_id in sorted(self._sessions):
            await self._close(broker_id)
        self._sessions.clear()
        # As in Kafka, a session that outlives its group would write to the states of a new group of that name.
        for connection in self._connections:
            connection.mark_closed()
        self._connections.clear()
        self.assigned = set()
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=-1
        )
        self.epoch, self.member_id = 0, self._new_id()
        with suppress(Refused, GaveUp):
            await self.ask_coordinator(GROUP, self.group_id, request, 1, attempts=10)

    async def _close(self, broker_id: int) -> None:
        """Ends a session with a last request, which may acknowledge records, or by closing its connection."""
        session = self._sessions.get(broker_id)
        if session is None:
            return
        if session.epoch and self.world.prng.random() < 0.5:
            request = ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=FINAL_EPOCH,
                topics=_acknowledged(share_acknowledge, self._decisions(session), set()),
            )
            with suppress(Lost):
                await self._send(broker_id, session, request)
        session.connection.mark_closed()

    # -- records

    async def turn(self) -> None:
        """Sends one request to one of the leaders, and processes the response."""
        world, prng = self.world, self.world.prng
        leaders: dict[int, set[Key]] = {}
        for key in sorted(self.assigned):
            found = self.leader_of(key)
            if found is not None:
                leaders.setdefault(found[0], set()).add(key)
        for left in self._sessions.keys() - leaders.keys():
            if self._sessions[left].held:
                leaders[left] = set()
        if not leaders:
            return
        broker_id = prng.choice(sorted(leaders))
        session = self._session(broker_id)
        if not world.is_calm and prng.random() < world.rules.freeze:
            await self._freeze(session)
            return
        decisions = self._decisions(session)
        try:
            if decisions and session.epoch and prng.random() < 0.5:
                await self._acknowledge(broker_id, session, decisions)
            elif not session.epoch or session.keys or leaders[broker_id]:
                await self._fetch(broker_id, session, leaders[broker_id], decisions)
        except Lost:
            self._lost(broker_id, session)

    def _session(self, broker_id: int) -> Session:
        broker: Any = self.world.brokers[broker_id]
        session = self._sessions.get(broker_id)
        if session is not None and session.life != broker.life:
            session.connection.mark_closed()
            session.connection, session.life = self._connection(broker), broker.life
        if session is None:
            session = self._sessions[broker_id] = Session(self._connection(broker), broker.life)
        return session

    def _connection(self, broker: Any) -> ConnectionInfo:
        made = ConnectionInfo(
            self.world.next_number(), "PLAINTEXT", ("client", 1), ("sim", broker.id)
        )
        self._connections.append(made)
        return made

    async def _freeze(self, session: Session) -> None:
        """Stops for a while. The connection may break meanwhile, and held records may be forgotten."""
        world = self.world
        world.happened["frozen"] += 1
        self.is_frozen = True
        if world.prng.random() < 0.3:
            session.connection.mark_closed()
        await trio.sleep(world.prng.uniform(*FREEZE_SECONDS))
        self.is_frozen = False
        if world.prng.random() < 0.5:
            session.held.clear()

    def _lost(self, broker_id: int, session: Session) -> None:
        """Begins a new session after a request whose outcome is unknown, perhaps with the records of the old one."""
        self.world.happened["session lost"] += 1
        self._sessions.pop(broker_id, None)
        if self.world.prng.random() < 0.5:
            session.connection.mark_closed()
        if self.world.prng.random() < 0.3 and not self.is_away:
            self._session(broker_id).held = session.held

    # -- requests

    def _decisions(self, session: Session) -> dict[Key, dict[int, Kind]]:
        """Returns decisions about held records, and forgets the decided ones."""
        prng, rules = self.world.prng, self.world.rules
        if not self.world.is_calm and self.world.now < session.keeps_until:
            return {}
        is_implicit = self.world.is_calm or prng.random() >= rules.explicit
        decided: dict[Key, dict[int, Kind]] = {}
        for key, held in list(session.held.items()):
            mine: dict[int, Kind] = {}
            for offset in sorted(held):
                if is_implicit:
                    mine[offset] = Kind.ACCEPT
                elif prng.random() < 0.6:
                    mine[offset] = prng.choice(DECISIONS)
                elif rules.renews and prng.random() < 0.3:
                    mine[offset] = Kind.RENEW
                elif prng.random() < 0.1:
                    del held[offset]  # the lock will end
            for offset, kind in mine.items():
                if kind is not Kind.RENEW:
                    del held[offset]
            if mine:
                decided[key] = mine
            if not held:
                del session.held[key]
        return decided

    async def _acknowledge(
        self, broker_id: int, session: Session, decisions: dict[Key, dict[int, Kind]]
    ) -> None:
        request = ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=_renews(decisions),
            topics=_acknowledged(share_acknowledge, decisions, set()),
        )
        response = await self._send(broker_id, session, request)
        if response.error_code:
            self._sessions.pop(broker_id, None)
            return
        session.epoch += 1
        self.world.happened["acknowledged"] += 1

    async def _fetch(
        self,
        broker_id: int,
        session: Session,
        wanted: set[Key],
        decisions: dict[Key, dict[int, Kind]],
    ) -> None:
        prng, rules = self.world.prng, self.world.rules
        is_renewal = _renews(decisions)
        if session.epoch == 0:
            decisions, is_renewal = {}, False
        forgotten = session.keys - wanted if session.epoch else set()
        most = 0 if is_renewal else 500 if self.world.is_calm else rules.most
        request = ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=0 if is_renewal else 80,
            min_bytes=0 if is_renewal else 1,
            max_bytes=0 if is_renewal else prng.choice((300, 1 << 20)),
            max_records=most,
            batch_size=most,
            share_acquire_mode=int(rules.record_limit),
            is_renew_ack=is_renewal,
            topics=_acknowledged(share_fetch, decisions, wanted - session.keys),
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=topic_id, partitions=[index])
                for topic_id, index in sorted(forgotten)
            ],
        )
        response = await self._send(broker_id, session, request)
        if response.error_code:
            self._sessions.pop(broker_id, None)
            if response.error_code in (E.SHARE_SESSION_NOT_FOUND, E.INVALID_SHARE_SESSION_EPOCH):
                self.world.happened["session refused"] += 1
            return
        session.epoch += 1
        session.keys = (session.keys | wanted) - forgotten
        if response.responses and prng.random() < rules.keeps:
            session.keeps_until = self.world.now + prng.uniform(0.0, 2.5) * rules.lock_ms / 1000
        for topic in response.responses:
            for data in topic.partitions:
                held = session.held.setdefault((topic.topic_id, data.partition_index), {})
                for part in data.acquired_records:
                    for offset in range(part.first_offset, part.last_offset + 1):
                        held[offset] = part.delivery_count
                if not held:
                    del session.held[topic.topic_id, data.partition_index]

    async def _send(self, broker_id: int, session: Session, request: Any) -> Any:
        """Sends a request on the connection of the session, sometimes twice; returns a response. Raises Lost."""
        world = self.world
        broker: Any = world.brokers[broker_id]

        async def handle() -> Any:
            checker: Any = world.checker
            before = checker.arrives(broker, request)
            frames = Frames(broker, self.name, VERSION, session.connection)
            response = await frames.handle(request)
            if broker.alive:
                if world.trace is not None:
                    world.say(broker.id, "→", self.name, brief(response), "to", brief(request))
                checker.answers(broker, request, VERSION, response, before)
            return response

        async def again() -> None:
            with suppress(Lost):
                await world.network.ask(CLIENT, broker, handle, REQUEST_SECONDS)

        stuck = world.faults.stuck
        if stuck and world.prng.random() < stuck * 2:
            world.happened["request repeated"] += 1
            world.tasks.start(again)
        return await world.network.ask(CLIENT, broker, handle, REQUEST_SECONDS, stuck=stuck)


def _renews(decisions: dict[Key, dict[int, Kind]]) -> bool:
    return any(Kind.RENEW in mine.values() for mine in decisions.values())


def _acknowledged(
    module: Any, decisions: dict[Key, dict[int, Kind]], wanted: set[Key]
) -> list[Any]:
    """Returns the topics of a request, which fetches from `wanted`."""
    is_fetch = module is share_fetch
    topic_kind = module.FetchTopic if is_fetch else module.AcknowledgeTopic
    partition_kind = module.FetchPartition if is_fetch else module.AcknowledgePartition
    topics: dict[bytes, Any] = {}
    for key in sorted(decisions.keys() | wanted):
        topic = topics.setdefault(key[0], topic_kind(topic_id=key[0], partitions=[]))
        batches = [
            module.AcknowledgementBatch(
                first_offset=first, last_offset=last, acknowledge_types=types
            )
            for first, last, types in _batches(decisions.get(key, {}))
        ]
        topic.partitions.append(
            partition_kind(partition_index=key[1], acknowledgement_batches=batches)
        )
    return list(topics.values())


def _batches(mine: dict[int, Kind]) -> list[tuple[int, int, list[int]]]:
    """Returns runs of neighbouring offsets, each with one type for all records, or a type for each record."""
    found: list[tuple[int, int, list[int]]] = []
    for offset, kind in sorted(mine.items()):
        if found and found[-1][1] + 1 == offset:
            first, _, types = found.pop()
            found.append((first, offset, [*types, kind.value]))
        else:
            found.append((offset, offset, [kind.value]))
    return [
        (first, last, types[:1] if len(set(types)) == 1 else types) for first, last, types in found
    ]

"""The real controller above the log: decisions, leases and tasks of `trimaran.quorum.controller`, served by its own
handlers.

The node proposes the controller's decisions and passes it the committed batches, as `trimaran.quorum.replica.node`
does; records go through the real codec. Brokers' requests arrive over the simulated network, an operator's requests
directly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import trio

from tests.broker.calls import finished, started
from tests.quorum.config_of import config_of
from tests.simulation.member import Member
from tests.simulation.storage import Entry
from trimaran.node.config.server import ServerConfig
from trimaran.node.replicated import operations
from trimaran.node.runtime.errors import NotLeaderError
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.controller import Controller, ControllerSettings
from trimaran.quorum.controller.handlers.alter_partition import alter_partition
from trimaran.quorum.controller.handlers.broker_heartbeat import broker_heartbeat
from trimaran.quorum.controller.handlers.broker_registration import broker_registration
from trimaran.quorum.controller.handlers.create_topics import create_topics
from trimaran.quorum.controller.handlers.delete_topics import delete_topics
from trimaran.quorum.metadata.features import ELR_VERSION, bootstrap_records, first_levels
from trimaran.quorum.raft.core import NotLeader
from trimaran.quorum.raft.roles import Leader, Role
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_partition import AlterPartitionRequest
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from trimaran.wire.messages.broker_registration import BrokerRegistrationRequest
from trimaran.wire.messages.create_topics import CreateTopicsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.records.metadata import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import Call, ConnectionInfo

if TYPE_CHECKING:
    from tests.simulation.metadata import Metadata
    from tests.simulation.node import SimNode

Reply = Callable[[Message | ErrorCode], object]

HANDLERS: dict[type[Message], Callable[..., Any]] = {
    AlterPartitionRequest: alter_partition,
    BrokerHeartbeatRequest: broker_heartbeat,
    BrokerRegistrationRequest: broker_registration,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
}
# Header of every request, with a version that all requests have.
HEADER = SimpleNamespace(api_version=3)
# A session spans a few heartbeats; the defaults are 9 s and 2 s.
SESSION_SECONDS = 1.5
# Limit of a batch; the real one is 8 MiB.
BATCH_BYTES_MAX = 16 << 10
NEWEST_METADATA_VERSION = 1 << 15


@cache
def _config(min_isr: int, unclean: bool) -> ServerConfig:
    return config_of(
        min_insync_replicas=min_isr, unclean_leader_election_enable=str(unclean).lower()
    )


class ControllerMember(Member):
    """One controller's state machine, which is the active controller while its node leads."""

    def __init__(self, shared: Metadata, node: SimNode) -> None:
        super().__init__(shared, node)
        self.metadata_version = NEWEST_METADATA_VERSION
        rules = shared.rules
        levels = first_levels({ELR_VERSION: int(rules.elr)})
        settings = ControllerSettings(
            cluster_id="sim",
            config=_config(rules.min_isr, rules.unclean),
            bootstrap=bootstrap_records(levels),
            session=SESSION_SECONDS,
            balance=3.0,
            unclean=2.0,
            prng=node.prng,
        )
        self.controller = Controller(settings, self.loader)
        self.controller._rules = replace(self.controller.rules, new_id=self._new_id)
        self.controller.node = self
        self._context = ControllerContext(settings.config, "sim", self, self.controller)  # type: ignore[arg-type]
        self._connections: dict[tuple[int, int], ConnectionInfo] = {}
        self._active: tuple[int, trio.CancelScope] | None = None
        self._resignations = 0

    def _new_id(self) -> bytes:
        return bytes([7]) + self.shared.world.next_payload().to_bytes(15, "big")

    # --- the node's interface for the controller

    @property
    def log_end_offset(self) -> int:
        return self.node.log.end_offset

    def encode(self, records: Sequence[Message]) -> Steps[bytes]:
        """Returns no bytes: batches are values in the simulation, and `propose` creates them."""
        yield len(records)
        return b""

    def propose(self, records: Sequence[Message], epoch: int, _batch: bytes | None = None) -> int:
        node, world = self.node, self.shared.world
        if not node.alive or self._active is None or self._active[0] != epoch:
            raise NotLeaderError
        encoded = [
            encode_metadata_record(r, metadata_record_version(type(r), self.metadata_version))
            for r in records
        ]
        if sum(map(len, encoded)) > BATCH_BYTES_MAX:
            raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, "too large")
        payload = world.next_payload()
        try:
            base = node.promise(payload, len(records), epoch)
        except NotLeader:
            raise NotLeaderError from None
        self.shared.batches[payload] = [decode_metadata_record(data) for data in encoded]
        self.shared.cluster.written[(epoch, base + len(records) - 1)] = world.now
        world.proposed.append(node)
        return base + len(records) - 1

    def resign(self) -> None:
        node, life = self.node, self.node.life
        self._resignations += 1
        self.shared.world.after(0.0, lambda: node.resign() if node.life == life else None)

    # --- events of the node

    def apply(self, entry: Entry) -> None:
        self.shared.cluster.committed(entry.base, entry.next, self.shared.records_of(entry))
        self.controller.apply_committed(self._batch(entry))
        self._raise()

    def load(self, snapshot_id: Any) -> None:
        self.controller.load_snapshot(self._snapshot(snapshot_id))
        self._raise()

    def saw_role(self, role: Role) -> None:
        """Runs the active controller while we lead, one epoch after the other."""
        epoch = role.epoch if isinstance(role, Leader) else None
        if self._active is not None:
            if self._active[0] != epoch:
                self._active[1].cancel()
        elif isinstance(role, Leader) and self.node.applied >= role.start_offset:
            self._active = role.epoch, trio.CancelScope()
            self.shared.world.tasks.start(self._lead, *self._active)

    def stopped(self) -> None:
        if self._active is not None:
            self._active[1].cancel()
        for connection in self._connections.values():
            connection.closed = True

    async def _lead(self, epoch: int, scope: trio.CancelScope) -> None:
        self.shared.world.happened["controller epoch"] += 1
        try:
            with scope:
                await self.controller.lead(epoch)
        finally:
            self._active = None

    # --- requests

    def serve(self, source: SimNode, request: Message, reply: Reply) -> None:
        key = (source.id, source.life)
        if key not in self._connections:
            address = ("sim", source.id)
            self._connections[key] = ConnectionInfo(len(self._connections), "C", address, address)
        self.ask(request, reply, self._connections[key])

    def ask(self, request: Message, reply: Reply, connection: ConnectionInfo | None = None) -> None:
        self.shared.world.tasks.start(self._serve, self.node.life, request, connection, reply)

    def lost_connection(self, source_id: int, life: int) -> None:
        connection = self._connections.pop((source_id, life), None)
        if connection is not None and self.node.alive:
            connection.mark_closed()

    async def _serve(
        self, life: int, request: Message, connection: ConnectionInfo | None, reply: Reply
    ) -> None:
        if self.node.life != life:
            return
        applied = self.node.applied
        try:
            found = HANDLERS[type(request)](request, self._context, Call(HEADER, connection))  # type: ignore[arg-type]
            found = await finished(found)
        except KafkaError as error:
            found = error.code
        if self.node.life == life:
            self._check(applied, request, found)
            reply(found)

    def _check(self, applied: int, request: Message, found: Message | ErrorCode) -> None:
        """Checks C3 for requests that contain a broker epoch."""
        if isinstance(request, BrokerHeartbeatRequest | AlterPartitionRequest):
            if isinstance(found, Message):
                self.shared.cluster.accepts(applied, request.broker_id, request.broker_epoch)
            else:
                self.shared.cluster.refuses(request.broker_id, request.broker_epoch)

    def refuse(self, request: Message) -> None:
        """Checks C5: sends an oversized request, and compares the state before and after the deciding step."""
        self.shared.world.tasks.start(self._refuse, self.node.life, request)

    async def _refuse(self, life: int, request: Message) -> None:
        if self.node.life != life or not self.controller.is_active:
            return
        if self.controller.active().operations.busy:  # the decision would be queued
            return
        before, error = self._standing(), ""
        try:
            with mock.patch.object(operations, "STEPS_PER_TURN", math.inf):
                started(HANDLERS[type(request)](request, self._context, Call(HEADER, None)))  # type: ignore[arg-type]
        except KafkaError as refusal:
            error = refusal.code.name
        after = self._standing()
        if error or after != before:  # otherwise there are too few brokers for the request
            self.shared.cluster.oversized(before, after, error)

    def _standing(self) -> tuple[object, ...]:
        """Returns whether the controller is active, its next offset, and its number of resignations."""
        is_active = self.controller.is_active
        end = self.controller.active().next_offset if is_active else -1
        return (is_active, end, self._resignations)

"""The controller: a listener of the metadata log that decides which records to write while its node leads.

Requests become decisions: plain functions of the active controller's state that return records and a response. The
records are appended and replayed in the turn of the decision; the response is sent when they are committed
(`trimaran.node.replicated`). Source: Kafka's `QuorumController`. See `topics`, `partitions`, `brokers`, `configs`, …
for the decisions.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import trio

from trimaran.node.config.server import ServerConfig
from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.epoch import open_epoch
from trimaran.node.runtime.steps import Steps, at_once
from trimaran.quorum import events
from trimaran.quorum.controller.active_controller import ActiveController, ProposingNode
from trimaran.quorum.controller.configs.policies import NO_POLICIES, Policies
from trimaran.quorum.controller.nodes.reachability import Reachability
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.partitions.topics import TopicRules
from trimaran.quorum.controller.tasks import fencing, upkeep
from trimaran.quorum.controller.tasks.activation import activation_records
from trimaran.quorum.controller.tasks.own_decisions import try_to_write
from trimaran.quorum.controller.tasks.standby import StandbyIndex
from trimaran.quorum.metadata.loader import MetadataLoader
from trimaran.quorum.raft.listener import CommittedBatch, LoadedSnapshot
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from trimaran.wire.schema import Message
from trimaran.wire.transport.requests.calls import ConnectionInfo
from trimaran.wire.transport.scheduling.effects import Handling, Wait

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
T = TypeVar("T")
Decision = Result[Message, R] | Steps[Result[Message, R]]
"""A decision; in steps if it is about many partitions."""


class Node(ProposingNode, Protocol):
    """The part of `QuorumNode` that the controller needs."""

    @property
    def log_end_offset(self) -> Offset: ...


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The controller's settings. Times are in seconds; 0 for `idle`, `balance` or `unclean` means never."""

    cluster_id: str
    config: ServerConfig
    bootstrap: Sequence[Message]
    session: float = 9.0
    idle: float = 0.5
    balance: float = 300.0
    unclean: float = 300.0
    token_sweep: float = 0.0  # interval between searches for expired delegation tokens
    prng: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True, slots=True)
class _ConnectionEnd:
    """The callback for a closed connection. Equal callbacks are registered once, so a connection has at most one for
    each broker.
    """

    controller: Controller
    connection_id: int
    broker_id: BrokerId

    def __call__(self) -> None:
        self.controller.connection_ended(self.connection_id, self.broker_id)


class Controller:
    """The controller of one node, a `MetadataListener`; `loader` has the committed image. `node` is set before the node
    runs.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        loader: MetadataLoader,
        policies: Policies = NO_POLICIES,
    ) -> None:
        self.settings = settings
        self.loader = loader
        self.node: Node | None = None
        self._active: ActiveController | None = None
        self._standby = StandbyIndex(loader)
        self._reachability = Reachability()
        loader.add_publisher(self._reachability)
        self._applied_end = Offset(0)
        self._rules = TopicRules(settings.config, settings.prng, policies=policies)

    # --- used by handlers

    @property
    def is_active(self) -> bool:
        return self._active is not None

    @property
    def rules(self) -> TopicRules:
        return self._rules

    def active(self) -> ActiveController:
        """Returns the state to decide on; called in a turn of `ActiveController.submit`.

        Raises:
            KafkaError: NOT_CONTROLLER if this node does not lead.
        """
        if self._active is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        return self._active

    def submit(self, decide: Callable[[ActiveController], Decision[R]]) -> Handling[R]:
        """Queues a decision, usually makes it at once, and writes its records; the handler's first step does this.

        Returns the response when they are committed.

        Raises:
            KafkaError: NOT_CONTROLLER, the error of `decide`, or the error of the log; nothing was written.
        """
        return self.submit_operation(partial(_decide_and_write, decide))

    async def decide(self, decide: Callable[[ActiveController], Decision[R]]) -> R:
        """Makes a decision for callers in this process that are not handlers. Raises the same errors as `submit`."""
        active = self.active()
        return await active.submit(_decide_and_write(decide, active)).wait()

    def submit_operation(self, operate: Callable[[ActiveController], Steps[R]]) -> Handling[R]:
        """Queues an operation that does more than decide and write; see `submit`.

        Raises:
            KafkaError: see `submit`.
        """
        active = self.active()
        pending = active.submit(operate(active))
        if pending.is_decided:
            response = pending.response  # raises the decision's error
            if pending.ready():
                return response
        response = yield Wait(pending.wait, pending.ready, when_ready=pending.when_ready)
        return response

    def watch(
        self, connection: ConnectionInfo, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> None:
        """Watches a connection that carried a heartbeat: when it closes, the broker's process may have ended."""
        active = self.active()
        self._reachability.note_heartbeat(broker_id, broker_epoch)
        lease = active.leases.get(broker_id, broker_epoch)
        if lease is None or lease.connection_id == connection.id:
            return
        lease.connection_id = connection.id
        lease.disconnected = False
        connection.on_close(_ConnectionEnd(self, connection.id, broker_id))

    def connection_ended(self, connection_id: int, broker_id: BrokerId) -> None:
        """Suspects the broker if the closed connection carried its last heartbeat."""
        if self._active is None:
            return
        lease = self._active.leases.of(broker_id)
        if lease is not None and lease.connection_id == connection_id:
            lease.connection_id, lease.disconnected = None, True
            self._active.suspect(broker_id, lease.broker_epoch)

    # --- MetadataListener

    def apply_committed(self, batch: CommittedBatch) -> None:
        self.loader.apply_committed(batch)
        if batch.ends:
            self._applied(batch.last_offset + 1, batch.epoch)

    def load_snapshot(self, snapshot: LoadedSnapshot) -> None:
        self.loader.load_snapshot(snapshot)
        if snapshot.ends:
            self._applied(snapshot.end_offset, snapshot.epoch)

    def _applied(self, end_offset: Offset, epoch: LeaderEpoch) -> None:
        self._applied_end = end_offset
        if self._active is None:  # otherwise the active controller's image, which is ahead, decides
            self._write_for(self.loader.image.features.metadata_version)
        if self._active is not None:
            self._active.applied(end_offset, epoch)

    async def run(self) -> None:
        """Keeps this node ready to lead until cancelled; without this task, a new epoch would begin later."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._standby.run)
            nursery.start_soon(self._reachability.run, lambda: self.loader.image)

    async def lead(self, epoch: LeaderEpoch) -> None:
        """Runs the active controller until cancelled."""
        index = await self._standby.acquire()
        try:
            await self._lead(self._begin(epoch, index))
        finally:
            self._standby.release(index)
            events.CONTROLLER_ENDED.log(log, epoch=epoch)

    async def _lead(self, active: ActiveController) -> None:
        async with open_epoch(active.close, self._end) as nursery:
            self._active = active
            self._activate(active)
            self._start_tasks(active, nursery)
            await trio.sleep_forever()

    def _start_tasks(self, active: ActiveController, nursery: trio.Nursery) -> None:
        """Starts the tasks of the epoch."""
        settings = self.settings
        nursery.start_soon(active.operations.run)
        nursery.start_soon(fencing.fence_expired, active, settings.session)
        nursery.start_soon(fencing.probe_suspects, active)
        nursery.start_soon(fencing.suspect_disconnected, active)
        nursery.start_soon(upkeep.write_no_op_records, active, settings.idle)
        nursery.start_soon(upkeep.balance, active, settings.balance)
        nursery.start_soon(upkeep.expire_tokens, active, settings.token_sweep)
        nursery.start_soon(upkeep.drain_leaving_brokers, active)
        nursery.start_soon(upkeep.elect_missing_leaders, active)
        nursery.start_soon(upkeep.elect_uncleanly, active)
        nursery.start_soon(upkeep.schedule_unclean_elections, active, settings.unclean)

    def _begin(self, epoch: LeaderEpoch, index: PartitionIndex) -> ActiveController:
        assert self.node is not None, "the node is given before it runs"
        active = ActiveController(
            epoch,
            self.node,
            self.loader.image,
            index,
            self.settings.config,
            applied_end=self._applied_end,
            log_end=self.node.log_end_offset,
            session_seconds=self.settings.session,
            reachability=self._reachability,
        )
        active.leases.begin(active.image, trio.current_time())
        events.CONTROLLER_ACTIVE.log(log, epoch=epoch, offset=active.next_offset)
        return active

    def _end(self) -> None:
        self._active = None

    def _activate(self, active: ActiveController) -> None:
        records = activation_records(
            active.image,
            self.settings.bootstrap,
            in_transaction=self.loader.in_transaction,
            min_insync_replicas=self.settings.config["min.insync.replicas"],
        )
        self._write_for(active.image.features.metadata_version)
        if records:
            at_once(try_to_write(active, Result(records, None)))  # no other decision is queued yet

    def _write_for(self, metadata_version: int) -> None:
        """Makes the node write records for nodes of this level; 0 is no level and changes nothing."""
        if self.node is not None and metadata_version:
            self.node.metadata_version = metadata_version


def _decide_and_write(
    decide: Callable[[ActiveController], Decision[R]], active: ActiveController
) -> Steps[R]:
    decision = decide(active)
    result = decision if isinstance(decision, Result) else (yield from decision)
    response: R = yield from active.write(result)
    return response

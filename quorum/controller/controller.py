"""The controller: a listener of the metadata log that, while its node leads, decides what is written next.

Requests come as decisions: plain functions of the active controller's state that return records and a response. Each is
made, appended and replayed in its turn (`operations`), and answered when it is committed. Source: Kafka's
`QuorumController`. Left out: what is decided (`topics`, `partitions`, `brokers`, `configs`, …).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

import trio

from node.config.server import ServerConfig
from node.runtime.clock import now_ms
from node.runtime.deferred import Deferred, Result
from node.runtime.epoch import open_epoch
from node.runtime.errors import NotLeaderError
from node.runtime.steps import Steps, at_once, pieces
from quorum.controller.activation import activation_records
from quorum.controller.active_controller import ActiveController
from quorum.controller.active_controller import Node as ActiveNode
from quorum.controller.brokers import ProcessedPartitions, fence_broker, taken_out
from quorum.controller.delegation_tokens import EXPIRED_MAX, expired_tokens
from quorum.controller.elections import balance_leaders, elect_unclean
from quorum.controller.index import PARTITIONS_PER_STEP, Key, PartitionIndex
from quorum.controller.leases import Lease
from quorum.controller.liveness import broker_is_down
from quorum.controller.partitions import changes_with, changes_without, in_steps
from quorum.controller.standby import StandbyIndex
from quorum.controller.state import ControllerState
from quorum.controller.topics import TopicRules
from quorum.metadata.image import BrokerRegistration, MetadataImage
from quorum.metadata.loader import MetadataLoader
from quorum.raft.listener import CommittedBatch, LoadedSnapshot
from wire.errors import ErrorCode, KafkaError
from wire.records.misc import NoOpRecord
from wire.schema import Message
from wire.transport.calls import ConnectionInfo, DeferredResponse
from wire.transport.events import yield_to_loop

log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)
T = TypeVar("T")
OnError = Callable[[ErrorCode, str], R]
Decision = Result[Message, R] | Steps[Result[Message, R]]
"""What is decided on many partitions comes in steps."""

# How long a lease that could not be ended is given once more; the log was full, or too far behind.
FENCE_AGAIN_SECONDS = 1.0
# Who wakes later than this was held, or had no processor: heartbeats wait to be read, and were they not, all brokers
# would be fenced at once.
LATE_SECONDS = 0.1
# What waits is read within so long. Without it the lease for whose end was waited would be over before anything is
# read.
READING_SECONDS = 0.5
# A look costs one connection to each listener; a broker heartbeats to a new controller within two seconds.
PROBE_INTERVAL_SECONDS = 0.25


class Node(ActiveNode, Protocol):
    """The part of `QuorumNode` that the controller needs."""

    @property
    def log_end_offset(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Times in seconds; 0 for `idle`, `balance` or `unclean` means never."""

    cluster_id: str
    config: ServerConfig
    bootstrap: Sequence[Message]
    session: float = 9.0
    idle: float = 0.5
    balance: float = 300.0
    unclean: float = 300.0
    token_sweep: float = 0.0  # between looks for expired delegation tokens
    prng: random.Random = field(default_factory=random.Random)


@dataclass(frozen=True, slots=True)
class _ConnectionEnd:
    """Called when the connection closes. Equal ones are one: a connection keeps no more of them than it carried
    brokers, whatever changes meanwhile.
    """

    controller: Controller
    connection_id: int
    broker_id: int

    def __call__(self) -> None:
        self.controller.connection_ended(self.connection_id, self.broker_id)


class Controller:
    """A `MetadataListener`; `loader` has the committed image. `node` is given before the node runs."""

    def __init__(self, settings: ControllerSettings, loader: MetadataLoader) -> None:
        self.settings = settings
        self.loader = loader
        self.node: Node | None = None
        self._active: ActiveController | None = None
        self._standby = StandbyIndex(loader)
        self._applied_end = 0
        self._rules = TopicRules(settings.config, settings.prng)

    # --- what handlers use

    @property
    def is_active(self) -> bool:
        return self._active is not None

    @property
    def rules(self) -> TopicRules:
        return self._rules

    def active(self) -> ActiveController:
        """What there is to decide on, in a turn of its `operations`.

        Raises:
            KafkaError: NOT_CONTROLLER.
        """
        if self._active is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        return self._active

    def submit(
        self, decide: Callable[[ActiveController], Decision[R]], on_error: OnError[R] | None = None
    ) -> DeferredResponse[R]:
        """Decides when it is its turn, mostly now, and writes that; the response leaves when it is committed.

        Raises:
            KafkaError: NOT_CONTROLLER; what `decide` raises, or the log says of the records. Nothing was written.
        """
        return self.submit_operation(partial(_decide_and_write, decide), on_error)

    def submit_operation(
        self,
        decide: Callable[[ActiveController], Steps[Deferred[R]]],
        on_error: OnError[R] | None = None,
    ) -> DeferredResponse[R]:
        """`submit` where there is more to do than to decide and to write.

        Raises:
            KafkaError: as `submit`.
        """
        active = self.active()
        try:
            operation = active.operations.submit(decide(active))
            deferred = operation.result() if operation.ended else None
        except NotLeaderError as error:
            raise _not_controller() from error

        def ready() -> bool:
            return deferred is not None and deferred.ready()

        async def finish() -> R:
            try:
                written = await operation.wait() if deferred is None else deferred
                return await written.wait()
            except NotLeaderError as error:
                raise _not_controller() from error

        return DeferredResponse(finish, ready=ready, on_error=on_error)

    def watch(self, connection: ConnectionInfo, broker_id: int, broker_epoch: int) -> None:
        """`connection` carried a heartbeat: its end is a sign that the broker's process may be gone."""
        active = self.active()
        lease = active.leases.get(broker_id, broker_epoch)
        if lease is None or lease.connection_id == connection.id:
            return
        lease.connection_id = connection.id
        lease.disconnected = False
        connection.on_close(_ConnectionEnd(self, connection.id, broker_id))

    def connection_ended(self, connection_id: int, broker_id: int) -> None:
        """A connection that carried heartbeats of the broker is gone; if it carried the last one, that is a sign."""
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

    def _applied(self, end_offset: int, epoch: int) -> None:
        self._applied_end = end_offset
        if self._active is None:  # else its own image says it, which is ahead
            self._write_for(self.loader.image.features.metadata_version)
        if self._active is not None:
            self._active.applied(end_offset, epoch)

    async def run(self) -> None:
        """Keeps ready to lead until it is cancelled; one that nobody runs begins an epoch later."""
        await self._standby.run()

    async def lead(self, epoch: int) -> None:
        """Runs the active controller until it is cancelled."""
        index = await self._standby.acquire()
        try:
            await self._lead(self._begin(epoch, index))
        finally:
            self._standby.release(index)
            log.info("controller epoch %d has ended", epoch)

    async def _lead(self, active: ActiveController) -> None:
        async with open_epoch(active.close, self._end) as nursery:
            self._active = active
            self._activate(active)
            nursery.start_soon(active.operations.run)
            nursery.start_soon(self._fence_expired, active)
            nursery.start_soon(self._probe_suspects, active)
            nursery.start_soon(self._suspect_disconnected, active)
            nursery.start_soon(self._write_no_op_records, active)
            nursery.start_soon(self._balance, active)
            nursery.start_soon(self._expire_tokens, active)
            nursery.start_soon(self._drain_leaving_brokers, active)
            nursery.start_soon(self._elect_missing_leaders, active)
            nursery.start_soon(self._elect_unclean, active)
            nursery.start_soon(self._schedule_unclean_elections, active)
            await trio.sleep_forever()

    def _begin(self, epoch: int, index: PartitionIndex) -> ActiveController:
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
        )
        active.leases.begin(active.image, trio.current_time())
        log.info("active controller of epoch %d from offset %d", epoch, active.next_offset)
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
            at_once(_try(active, Result(records, None)))  # nobody has asked for a turn yet

    def _write_for(self, metadata_version: int) -> None:
        """From now on records are of versions that nodes of this level read; 0 is no level."""
        if self.node is not None and metadata_version:
            self.node.metadata_version = metadata_version

    # --- tasks of an epoch

    async def _fence_expired(self, active: ActiveController) -> None:
        """Fences brokers whose lease has run out."""
        while True:
            now = trio.current_time()
            for lease in active.leases.expired(now):
                if lease.deadline <= now:  # still, after those before it
                    await self._fence(
                        active, lease.broker_id, lease.broker_epoch, "its session has timed out"
                    )
            # Every lease that begins while we sleep is longer than this.
            deadline = active.leases.next_deadline() or now + self.settings.session
            wake_at = min(deadline, now + self.settings.session)
            await trio.sleep_until(wake_at)
            late = trio.current_time() - wake_at
            if late > LATE_SECONDS:
                active.leases.extend_all(late + READING_SECONDS)

    async def _probe_suspects(self, active: ActiveController) -> None:
        """Fences brokers that closed their connection and do not listen any more."""
        async with trio.open_nursery() as nursery:
            while True:
                await active.suspected.wait()
                suspects, active.suspects = active.suspects, {}
                for broker_id, broker_epoch in suspects.items():
                    nursery.start_soon(self._probe, active, broker_id, broker_epoch)

    async def _suspect_disconnected(self, active: ActiveController) -> None:
        """A broker without a connection is looked at until it heartbeats again, or is gone, or its lease is over."""
        while True:
            for lease in active.leases.disconnected_leases():
                active.suspect(lease.broker_id, lease.broker_epoch)
            await trio.sleep(PROBE_INTERVAL_SECONDS)

    async def _probe(self, active: ActiveController, broker_id: int, broker_epoch: int) -> None:
        broker = _incarnation(active.image, broker_id, broker_epoch)
        if broker is None or not await broker_is_down(broker.listeners):
            return
        lease = active.leases.get(broker_id, broker_epoch)
        if lease is not None and lease.disconnected:
            await self._fence(active, broker_id, broker_epoch, "its process has ended")

    async def _fence(
        self, active: ActiveController, broker_id: int, broker_epoch: int, why: str
    ) -> None:
        """Takes the broker out of its ISRs a part at a time; what is left of them goes with the fencing."""
        active.leases.end(broker_id)
        broker = _incarnation(active.image, broker_id, broker_epoch)
        if broker is None or broker.fenced:
            return
        log.info("fencing broker %d at epoch %d: %s", broker_id, broker_epoch, why)
        try:
            await _fence_in_steps(active, broker)
        except KafkaError as error:
            log.warning("broker %d cannot be fenced yet: %s", broker_id, error)
            lease = active.leases.extend(broker_id, broker_epoch, trio.current_time())
            lease.deadline = trio.current_time() + FENCE_AGAIN_SECONDS

    async def _write_no_op_records(self, active: ActiveController) -> None:
        """A record that says nothing, whenever nothing else was written for a while (KIP-835)."""
        while self.settings.idle:
            before = active.next_offset
            await trio.sleep(self.settings.idle)
            if active.next_offset == before:
                await _perform(active, _try(active, Result([NoOpRecord()], None)))

    async def _expire_tokens(self, active: ActiveController) -> None:
        """Removes delegation tokens that have run out; more than one sweep takes are swept at once."""

        def expire() -> Steps[int]:
            records = expired_tokens(active.image.tokens, now_ms=now_ms())
            if records:
                yield from _try(active, Result(records, None))
            return len(records)

        while self.settings.token_sweep:
            expired = await _perform(active, expire())
            if expired == EXPIRED_MAX:
                await yield_to_loop()
            else:
                await trio.sleep(self.settings.token_sweep)

    async def _balance(self, active: ActiveController) -> None:
        """Moves leaders back to preferred replicas, from time to time."""
        while self.settings.balance:
            await trio.sleep(self.settings.balance)
            changed = await _process_partitions(
                active, lambda index: index.imbalanced, balance_leaders
            )
            if changed:
                log.info("moved %d leaders back to preferred replicas", changed)

    async def _elect_missing_leaders(self, active: ActiveController) -> None:
        """For partitions without a leader, when a broker is back, or a predecessor did not get so far."""
        active.leaders_wanted.set()
        while True:
            await active.leaders_wanted.wait()
            await _process_partitions(active, lambda index: index.leaderless, _changes_with_active)

    async def _elect_unclean(self, active: ActiveController) -> None:
        """For partitions without a leader whose topics rather lose records than wait."""
        while True:
            await active.unclean_wanted.wait()
            changed = await _process_partitions(
                active, lambda index: index.leaderless, elect_unclean
            )
            if changed:
                log.warning(
                    "unclean leader election for %d partitions: records may be lost", changed
                )

    async def _schedule_unclean_elections(self, active: ActiveController) -> None:
        while self.settings.unclean:
            await trio.sleep(self.settings.unclean)
            active.unclean_wanted.set()

    async def _drain_leaving_brokers(self, active: ActiveController) -> None:
        """Brokers in controlled shutdown give away what did not fit into the step that began it."""
        while True:
            await active.draining.wait()
            for lease in active.leases.draining():
                await self._drain(active, lease)

    async def _drain(self, active: ActiveController, lease: Lease) -> None:
        def decide(state: ControllerState, keys: Sequence[Key]) -> Sequence[Message]:
            if active.leases.get(lease.broker_id, lease.broker_epoch) is not lease:
                return ()
            return changes_without(state, lease.broker_id, keys=keys)

        await _process_partitions(active, lambda index: index.in_sync(lease.broker_id), decide)
        lease.shutdown_offset = active.next_offset - 1
        lease.draining = False


async def _perform(active: ActiveController, steps: Steps[T]) -> T:
    """A turn for a task of the epoch."""
    try:
        return await active.operations.submit_and_wait(steps)
    except NotLeaderError:
        await trio.sleep_forever()  # until we are cancelled: the epoch ends


Which = Callable[[PartitionIndex], Iterable[Key]]
Decide = Callable[[ControllerState, Sequence[Key]], Sequence[Message]]


async def _fence_in_steps(active: ActiveController, broker: BrokerRegistration) -> None:
    """A part of its partitions in each turn; what is left of them goes with the fencing."""
    decided = ProcessedPartitions()

    def leave(keys: Sequence[Key]) -> Steps[None]:
        if _incarnation(active.image, broker.id, broker.epoch) is not None:
            records = yield from taken_out(active.state, broker.id, keys=keys)
            yield from active.write(Result(records, None, atomic=False))
            decided.note(active.state, keys)

    def fence() -> Steps[None]:
        known = _incarnation(active.image, broker.id, broker.epoch)
        if known is not None and not known.fenced:
            others = decided.others(active.state, active.state.index.in_sync(broker.id))
            records = yield from fence_broker(active.state, known, others)
            yield from active.write(Result(records, None, atomic=False))

    keys = await _perform(active, _listed(active, lambda index: index.in_sync(broker.id)))
    for some in pieces(keys, PARTITIONS_PER_STEP):
        await _perform(active, leave(some))
    await _perform(active, fence())


async def _process_partitions(active: ActiveController, which: Which, decide: Decide) -> int:
    """Decides on the partitions of now, so many in each turn; returns how many changed."""

    def change(some: Sequence[Key]) -> Steps[int | None]:
        """How many changed; None if it could not be written."""
        records = yield from in_steps(some, partial(decide, active.state))
        written = not records or (yield from _try(active, Result(records, None, atomic=False)))
        return len(records) if written else None

    changed = 0
    keys = await _perform(active, _listed(active, which))
    for some in pieces(keys, PARTITIONS_PER_STEP):
        count = await _perform(active, change(some))
        while count is None:
            await trio.sleep(FENCE_AGAIN_SECONDS)
            count = await _perform(active, change(some))
        changed += count
    return changed


def _listed(active: ActiveController, which: Which) -> Steps[list[Key]]:
    """The keys of now; the index is whole in a turn of one's own only."""
    yield 1
    return list(which(active.state.index))


def _changes_with_active(state: ControllerState, keys: Sequence[Key]) -> Sequence[Message]:
    return changes_with(state, keys=keys)


def _incarnation(
    image: MetadataImage, broker_id: int, broker_epoch: int
) -> BrokerRegistration | None:
    broker = image.cluster.brokers.get(broker_id)
    return broker if broker is not None and broker.epoch == broker_epoch else None


def _try(active: ActiveController, result: Result[Message, None]) -> Steps[bool]:
    """For what the next round does as well; the end of the epoch cancels the caller. False if nothing was written."""
    try:
        yield from active.write(result)
    except (KafkaError, NotLeaderError) as error:
        log.debug("not written: %s", error)
        return False
    return True


def _decide_and_write(
    decide: Callable[[ActiveController], Decision[R]], active: ActiveController
) -> Steps[Deferred[R]]:
    decision = decide(active)
    result = decision if isinstance(decision, Result) else (yield from decision)
    return (yield from active.write(result))


def _not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller any more")

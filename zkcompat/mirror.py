"""The mirror: keeps a ZooKeeper tree equal to the newest metadata image, as the only writer.

One task writes. A session is a block: it begins with a claim (one transaction) and a comparison of the whole tree, then
follows the images; it ends at the first refusal or uncertain outcome, and nothing of it is alive when the next one
begins. After an uncertain outcome (connection loss, session loss, no answer) nothing is believed: the next claim
writes, so whatever is still in flight from before fails its version check, and then the tree is read and compared. A
mirror that was overtaken waits until the other's claim is gone.
Source: `KRaftMigrationDriver` of Kafka 3.9; state machine and retries are ours. Nothing in ZooKeeper flows back into
the cluster.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import trio

from node.runtime.clock import now_ms
from quorum.metadata.image import MetadataImage
from wire.client.backoff import ExponentialBackoff
from wire.transport.events import Notifier
from zkcompat.claim import GUARD_STEPS, Guard, Leader, Step, claim_steps, step_of
from zkcompat.feed import ImageFeed
from zkcompat.keeper import Keeper, TransactionRefusedError, UncertainOutcomeError
from zkcompat.operations import Operation, batches, split_oversize
from zkcompat.plan import plan_changes, reconcile
from zkcompat.tree import OWNED_ROOTS, SINGLE_PATHS
from zkcompat.znodes import (
    CONFIG_CHANGES,
    ClusterId,
    Controller,
    ControllerEpoch,
    Migration,
    decode_or_none,
)

log = logging.getLogger(__name__)

# After a failure; ZooKeeper away for long: ask every 2 s
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 2.0
# Until a wait for the quorum or ZooKeeper is worth a word; where all is well each takes milliseconds.
PATIENCE_SECONDS = 1.0
STANDBY_POLL_SECONDS = 2.0  # a watch tells at once; the poll is for a watch that got lost
# A standby takes over from a mirror that has been silent for this share of a session timeout: before the session ends,
# and after a live mirror, which answers a change within milliseconds, has had seconds.
TAKE_OVER_SHARE = 1 / 3
# As Kafka's change listeners: who has not read a note within 15 minutes reads everything at its start anyway.
NOTIFICATION_LIFETIME_MS = 15 * 60 * 1000


class WrongClusterError(Exception):
    """The tree belongs to another Kafka cluster. The operator's fault: wrong `zookeeper.connect` or chroot."""


class MirrorFencedError(Exception):
    """The guard was refused: somebody else wrote the claim's znodes."""


class TreeDiffersError(Exception):
    """An operation was refused: the tree is not what the plan took it for. Read and compare."""


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """`batch_operations` is `zookeeper.metadata.migration.min.batch.size`."""

    batch_operations: int
    verify_interval_seconds: float


@dataclass(slots=True)
class MirrorStatus:
    """What the mirror tells about itself; counters only grow."""

    state: str = "starting"
    published_offset: int = -1
    controller_epoch: int = -1
    writes: int = 0
    transactions: int = 0
    claims: int = 0
    reconciles: int = 0
    repairs: int = 0
    last_problem: str = ""


@dataclass(slots=True)
class Mirror:
    """Writes the images of `feed` through `keeper`. `run` is its only entrance."""

    feed: ImageFeed
    keeper: Keeper
    cluster_id: str
    config: MirrorConfig
    status: MirrorStatus = field(default_factory=MirrorStatus)
    _changed: Notifier = field(default_factory=Notifier)

    def tell(self, state: str) -> None:
        """Wakes those who wait for the status."""
        self.status.state = state
        self._changed.notify_all()

    async def wait_status(self, wanted: Callable[[MirrorStatus], bool]) -> None:
        await trio.lowlevel.checkpoint()
        while not wanted(self.status):
            await self._changed.wait()

    async def run(self) -> None:
        """Mirrors until cancelled. Raises WrongClusterError."""
        await self._leader_known()
        backoff = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        first = True
        while True:
            try:
                await self._connected()
                if not first:
                    await self._wait_standby()
                first = False
                async with self._open_session() as session:
                    backoff.succeeded()
                    await session.follow()
            except (UncertainOutcomeError, MirrorFencedError, TransactionRefusedError) as problem:
                self.status.last_problem = f"{type(problem).__name__}: {problem}"
                if isinstance(problem, UncertainOutcomeError):
                    log.warning(
                        "Lost ZooKeeper connection (%s); retrying: %s",
                        self.keeper.config.connect,
                        problem,
                    )
                else:
                    log.warning("Another mirror wrote to ZooKeeper; starting over: %s", problem)
            self.tell("waiting")
            await trio.sleep(backoff.failed())

    async def _leader_known(self) -> None:
        def known(feed: ImageFeed) -> bool:
            return feed.ready and feed.leader is not None

        with trio.move_on_after(PATIENCE_SECONDS):
            await self.feed.wait_for(known)
        if not known(self.feed):
            log.warning("The quorum has no leader: waiting for a majority of the controllers")
            await self.feed.wait_for(known)

    async def _connected(self) -> None:
        """Waits for the session. One that ZooKeeper never takes up again, though it answers, is given up."""
        patience = 2 * self.keeper.config.session_timeout_ms / 1000
        connect = self.keeper.config.connect
        self.tell("connecting")
        if await self.keeper.wait_connected(PATIENCE_SECONDS):
            return
        if not await _answers(connect):
            log.warning("ZooKeeper at %s does not answer; retrying", connect)
        while not await self.keeper.wait_connected(patience):
            if await _answers(connect):
                # Its data was wiped or restored: the client's last zxid is from the future, and every server turns it
                # away.
                log.warning("ZooKeeper answers but refuses our session: beginning a new one")
                await self.keeper.close()
                self.keeper.connect(None)

    async def _wait_standby(self) -> None:
        """Returns when no other mirror's claim stands, or when the other does nothing though there is something to do.

        A dead or frozen mirror is overtaken so before its session ends, and brokers do not vanish in between; a slow
        one keeps writing, and each of its transactions moves the version of `/migration`.
        """
        patience = self.keeper.config.session_timeout_ms / 1000 * TAKE_OVER_SHARE
        poll = min(STANDBY_POLL_SECONDS, patience / 4)
        seen, since = -1, trio.current_time()
        while True:
            controller = await self.keeper.read(Controller.PATH)
            if controller is None or controller.owner in (0, self.keeper.session_id):
                return
            self.tell("standby")
            found = await self.keeper.read(Migration.PATH)
            state = decode_or_none(Migration.decode, found.data if found else None) or Migration()
            version = found.version if found else -1
            if version != seen or state.offset >= self.feed.image.provenance.offset:
                seen, since = version, trio.current_time()
            elif trio.current_time() - since > patience:
                log.warning("The other mirror does not write any more: taking over")
                return
            if await self.keeper.wait_deleted(Controller.PATH, poll):
                return

    @asynccontextmanager
    async def _open_session(self) -> AsyncIterator[MirrorSession]:
        """Claims; the body may write while the claim holds."""
        session = MirrorSession(self)
        await session.claim()
        try:
            yield session
        finally:
            # Not an error to be outlived by a claim: whoever comes next checks versions, not this object.
            session.guard = None


@dataclass(slots=True)
class MirrorSession:
    """One tenure as the tree's writer: the guard, and the image that the tree shows."""

    mirror: Mirror
    guard: Guard | None = None
    leader: Leader | None = None
    shown: MetadataImage | None = None

    async def claim(self) -> None:
        """Takes the claim over, whoever has it; within a session only our own. Raises
        TransactionRefusedError or MirrorFencedError.
        """
        keeper, status = self.mirror.keeper, self.mirror.status
        leader = self.mirror.feed.leader
        assert leader is not None
        await _prepare(keeper, self.mirror.cluster_id)
        epoch, controller, migration = [
            await keeper.read(path)
            for path in (ControllerEpoch.PATH, Controller.PATH, Migration.PATH)
        ]
        if epoch is None or migration is None:
            raise UncertainOutcomeError("the claim's znodes vanished")
        if self.guard is not None and epoch.version != self.guard.controller_epoch_version:
            raise MirrorFencedError("another mirror holds the claim")
        dirty = self.shown is None
        steps, guard = claim_steps(leader, now_ms(), epoch, controller, migration, dirty=dirty)
        await keeper.transact(steps)
        self.guard, self.leader = guard, leader
        status.claims += 1
        status.controller_epoch = guard.controller_epoch
        log.info("Claimed controller epoch %d for leader %d", guard.controller_epoch, leader.id)

    async def follow(self) -> None:
        """Writes image after image until something ends the session."""
        config, feed = self.mirror.config, self.mirror.feed
        await self._reconcile()
        next_verify = trio.current_time() + config.verify_interval_seconds
        while True:
            if self.leader != feed.leader:
                await self.claim()
            await self._catch_up()
            self.mirror.tell("in step")
            with trio.move_on_at(next_verify):
                await self._wait_for_change()
            if trio.current_time() >= next_verify:
                await self._delete_old_notifications()
                await self._reconcile()
                next_verify = trio.current_time() + config.verify_interval_seconds

    async def _wait_for_change(self) -> None:
        """Returns at a new image or leader; raises UncertainOutcomeError when the connection breaks."""
        feed, keeper = self.mirror.feed, self.mirror.keeper
        async with trio.open_nursery() as nursery:
            broken = False

            async def watch_connection() -> None:
                nonlocal broken
                await keeper.wait_disconnected()
                broken = True
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch_connection)
            await feed.wait_for(lambda f: f.image is not self.shown or f.leader != self.leader)
            nursery.cancel_scope.cancel()
        if broken:
            raise UncertainOutcomeError("the connection to ZooKeeper broke")

    async def _catch_up(self) -> None:
        image, changes = self.mirror.feed.take()
        shown = self.shown
        if image is shown or shown is None:
            return
        try:
            await self._write(plan_changes(shown, image, changes), image)
        except TreeDiffersError as problem:
            log.warning("The tree was changed by another client (%s): comparing all of it", problem)
            self.mirror.status.repairs += 1
            await self._reconcile()

    async def _reconcile(self) -> None:
        """Reads the tree and writes the differences to the newest image."""
        keeper, status = self.mirror.keeper, self.mirror.status
        self.mirror.tell("reconciling")
        for _ in range(
            3
        ):  # somebody else's writes between our reading and writing; more often is not by chance
            image, _ = self.mirror.feed.take()
            found = await keeper.read_tree(OWNED_ROOTS, SINGLE_PATHS)
            status.reconciles += 1
            operations = reconcile(found, image, self.mirror.cluster_id, keeper.session_id)
            try:
                await self._write(operations, image)
            except TreeDiffersError as problem:
                log.warning("The tree changes while it is compared: %s", problem)
                continue
            return
        raise UncertainOutcomeError("another client keeps writing below the mirror's paths")

    async def _delete_old_notifications(self) -> None:
        """Deletes change notes that nobody waits for any more; the next sweep goes on where this one stops."""
        keeper = self.mirror.keeper
        old: list[Step] = []
        for name in (await keeper.children(CONFIG_CHANGES))[: self.mirror.config.batch_operations]:
            path = f"{CONFIG_CHANGES}/{name}"
            created = await keeper.created_ms(path)
            if created is None or now_ms() - created < NOTIFICATION_LIFETIME_MS:
                break  # names ascend with time: the rest is younger
            old.append(Step("delete", path))
        if old and self.guard is not None:
            with suppress(TreeDiffersError):  # somebody else swept too
                await self._transact(old, self.guard.migration)

    async def _write(self, operations: Sequence[Operation], image: MetadataImage) -> None:
        """Runs the operations; `/migration` moves to the image with the last of them, in the same transaction."""
        fitting, oversize = split_oversize(operations)
        for operation in oversize:
            log.error("Left out, larger than ZooKeeper takes: %s", operation.sentence)
        assert self.guard is not None
        runs = list(batches(fitting, self.mirror.config.batch_operations)) or [[]]
        done = replace(
            self.guard.migration,
            offset=image.provenance.offset,
            epoch=image.provenance.epoch,
            dirty=False,
        )
        if runs == [[]] and done == self.guard.migration:
            self.shown = image
            return
        for number, run in enumerate(runs):
            last = number == len(runs) - 1
            before = replace(self.guard.migration, dirty=True)
            for operation in run:
                log.debug("%s: %s", operation.name, operation.sentence)
            await self._transact([step_of(op) for op in run], done if last else before)
        self.shown = image
        self.mirror.status.published_offset = image.provenance.offset
        self.mirror.status.writes += len(fitting)

    async def _transact(self, steps: Sequence[Step], migration: Migration) -> None:
        """One guarded transaction. Raises MirrorFencedError, TreeDiffersError or UncertainOutcomeError."""
        guard = self.guard
        assert guard is not None
        try:
            await self.mirror.keeper.transact([*guard.proof(migration), *steps])
        except TransactionRefusedError as refused:
            if refused.index < GUARD_STEPS:
                raise MirrorFencedError(
                    f"another mirror holds the claim ({refused.reason})"
                ) from refused
            step = steps[refused.index - GUARD_STEPS]
            raise TreeDiffersError(f"{step.kind} {step.path}: {refused.reason}") from refused
        self.guard = guard.advanced(migration)
        self.mirror.status.transactions += 1


async def _prepare(keeper: Keeper, cluster_id: str) -> None:
    """What must stand before a claim: written without guard, each only if it is missing. Raises WrongClusterError."""
    await keeper.ensure("/", None)
    await keeper.ensure("/cluster", None)
    await keeper.ensure(ClusterId.PATH, ClusterId(cluster_id).encode())
    found = await keeper.read(ClusterId.PATH)
    known = decode_or_none(ClusterId.decode, found.data if found else None)
    if known is None or known.id != cluster_id:
        raise WrongClusterError(
            f"this ZooKeeper tree is of cluster {known.id if known else 'unreadable'}, "
            f"the quorum is of cluster {cluster_id}; use another tree or a chroot in zookeeper.connect"
        )
    await keeper.ensure(ControllerEpoch.PATH, ControllerEpoch(0).encode())
    await keeper.ensure(Migration.PATH, Migration().encode())


async def _answers(connect: str) -> bool:
    """True when some server of the connect string accepts connections."""
    for address in connect.partition("/")[0].split(","):
        host, _, port = address.strip().rpartition(":")
        with trio.move_on_after(2.0):
            try:
                stream = await trio.open_tcp_stream(host or address.strip(), int(port or 2181))
            except (OSError, ValueError):
                continue
            await stream.aclose()
            return True
    return False

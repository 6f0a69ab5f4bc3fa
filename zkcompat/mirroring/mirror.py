"""The mirror: keeps a ZooKeeper tree equal to the newest metadata image, as the only writer.

A tenure is a block: it begins with a claim (one transaction) and a comparison of the whole tree, then follows the
images; it ends at a refusal of the claim or an uncertain outcome, and all its tasks have ended when the next tenure
begins. After an uncertain outcome (connection loss, session loss, no response) the state of the tree is unknown. The
next claim writes, so that requests still in flight fail their version check; then the tree is read and compared.
Source: `KRaftMigrationDriver` of Kafka 3.9; state machine and retries are ours. Mirrored data never flows back into the
cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import trio

from trimaran.wire.client.backoff import ExponentialBackoff
from trimaran.zkcompat import events
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.mirroring.connecting import Connecting
from trimaran.zkcompat.mirroring.follower import ImageFollower
from trimaran.zkcompat.mirroring.resync import ResyncRequests
from trimaran.zkcompat.mirroring.standby import Standby
from trimaran.zkcompat.mirroring.status import MirrorStatus, Reporting
from trimaran.zkcompat.mirroring.sweeper import Sweeper
from trimaran.zkcompat.mirroring.tenure import (
    Companion,
    MirrorFencedError,
    Tenure,
    check_cluster,
)
from trimaran.zkcompat.mirroring.verifier import BrokerWatch, TreeVerifier, VerificationPace
from trimaran.zkcompat.mirroring.writer import TreeWriter
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.sections.registry import Sections, sections_of
from trimaran.zkcompat.zookeeper.errors import (
    PathRefusedError,
    UncertainOutcomeError,
    UnsuitableZooKeeperError,
)
from trimaran.zkcompat.zookeeper.keeper import Keeper

log = logging.getLogger(__name__)

# The back-off after a lost connection, or if the claim's znodes are locked: a retry costs a few requests per second.
RETRY_SECONDS = 0.05
RETRY_SECONDS_MAX = 1.0
# The back-off after another client took over the claim: comparing a large tree in a loop would not help.
FENCED_RETRY_SECONDS_MAX = 30.0
# A tenure that lasted this long resets the back-off.
GOOD_TENURE_SECONDS = 10.0
PATIENCE_SECONDS = 1.0
# The share of a CPU for verification: about 800 znodes a second, so damage to a small tree is repaired within seconds.
VERIFY_SHARE = 0.015

_ENDINGS = (UncertainOutcomeError, MirrorFencedError, PathRefusedError)


@dataclass(frozen=True, slots=True)
class MirrorConfig:
    """`batch_operations` is `zookeeper.metadata.migration.min.batch.size`; `secrets`: SCRAM credentials and delegation
    tokens are mirrored, too. The tree is verified continually: with `verify_share` of a CPU, or faster if the interval
    would not suffice.
    """

    batch_operations: int
    verify_interval_seconds: float
    secrets: bool = False
    verify_share: float = VERIFY_SHARE


class LeadershipOverError(Exception):
    """Another mirror should lead now."""


class MirrorLeadership(Protocol):
    """Decides when this mirror leads, if the claim does not decide it."""

    async def wait(self) -> None:
        """Returns when this mirror should lead."""

    async def wait_over(self) -> None:
        """Returns when this mirror should no longer lead."""


@dataclass(slots=True)
class Mirror:
    """Writes the images of `feed` through `keeper`. `run` is the only entry point.

    With a `leadership` it mirrors only while it leads, and starts immediately. Without one it waits while another
    mirror holds the claim.
    """

    feed: ImageFeed
    keeper: Keeper
    cluster_id: str
    config: MirrorConfig
    companions: Sequence[Companion] = ()
    status: MirrorStatus = field(default_factory=MirrorStatus)
    quarantine: Quarantine = field(default_factory=lambda: Quarantine(trio.current_time))
    leadership: MirrorLeadership | None = None

    async def wait_status(self, wanted: Callable[[MirrorStatus], bool]) -> None:
        """Returns when `wanted` is true for the status."""
        await self.status.wait_for(wanted)

    async def run(self) -> None:
        """Mirrors until cancelled.

        Raises UnsuitableZooKeeperError if at the start the tree is another cluster's or the server is too old. If that
        happens later, another client may have caused it: the mirror waits until it is repaired.
        """
        reporting = Reporting(self.feed, self.keeper, self.status, self.quarantine)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reporting.watch_quorum)
                nursery.start_soon(reporting.run)
                await self._leader_known()
                await self._tenures(reporting.admitted)
        except BaseExceptionGroup as group:
            raise only(group, UnsuitableZooKeeperError) from None

    async def _tenures(self, admitted: trio.Event) -> None:
        connection = ExponentialBackoff(RETRY_SECONDS, RETRY_SECONDS_MAX)
        fenced = ExponentialBackoff(RETRY_SECONDS, FENCED_RETRY_SECONDS_MAX)
        while True:
            began = trio.current_time()
            try:
                await Connecting(self.keeper, self.status).wait()
                await self.keeper.require_modern_server()
                await check_cluster(self.keeper, self.cluster_id)
                admitted.set()
                await self._wait_leadership()
                began = trio.current_time()
                await self._tenure()
            except LeadershipOverError:
                events.MIRROR_STANDS_BY.log(log)
                self.status.tell("standby")
            except (*_ENDINGS, UnsuitableZooKeeperError) as problem:
                if isinstance(problem, UnsuitableZooKeeperError) and not admitted.is_set():
                    raise
                if trio.current_time() - began > GOOD_TENURE_SECONDS:
                    connection.succeeded()
                    fenced.succeeded()
                is_fenced = isinstance(problem, MirrorFencedError)
                seconds = (fenced if is_fenced else connection).failed()
                self._explain(problem, seconds)
                self.status.tell("waiting")
                await trio.sleep(seconds)

    async def _wait_leadership(self) -> None:
        if self.leadership is None:
            await Standby(self.feed, self.keeper, self.status).wait()
            return
        self.status.tell("standby")
        await self.leadership.wait()

    async def _end_with_leadership(self) -> None:
        if self.leadership is not None:
            await self.leadership.wait_over()
            raise LeadershipOverError

    def _explain(self, problem: Exception, seconds: float) -> None:
        connect = self.keeper.config.connect
        event, then = events.MIRROR_INTERRUPTED, "starting over"
        if isinstance(problem, UncertainOutcomeError):
            words, then = f"Lost ZooKeeper at {connect} ({problem})", "trying again"
        elif isinstance(problem, UnsuitableZooKeeperError):
            event, words = events.MIRROR_WRONG_CLUSTER, str(problem)
            then = "waiting until that has changed"
        elif isinstance(problem, PathRefusedError):
            words = f"ZooKeeper at {connect} refuses what the mirror's claim needs, {problem}"
            then = f"give the mirror's user all rights there; trying again in {seconds:.1f} s"
        else:
            words = f"Another client wrote the mirror's claim ({problem})"
        self.status.last_problem = words
        event.log(log, problem=words, then=then)

    async def _leader_known(self) -> None:
        def known(feed: ImageFeed) -> bool:
            return feed.ready and feed.leader is not None

        with trio.move_on_after(PATIENCE_SECONDS):
            await self.feed.wait_for(known)
        if not known(self.feed):
            events.MIRROR_WAITS_FOR_QUORUM.log(log)
            await self.feed.wait_for(known)

    async def _tenure(self) -> None:
        """Claims, compares and follows until an exception of `_ENDINGS` is raised."""
        tenure = Tenure(
            self.keeper,
            self.cluster_id,
            self._sections(),
            self.status,
            self.companions,
            image_at=self.feed.image_at,
        )
        writer = TreeWriter(tenure, self.quarantine, self.config.batch_operations)
        follower = ImageFollower(self.feed, tenure, writer, self.quarantine, self.status)
        pace = VerificationPace(self.config.verify_share, self.config.verify_interval_seconds)
        assert self.feed.leader is not None
        try:
            await tenure.claim(self.feed.leader)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._end_with_leadership)
                nursery.start_soon(tenure.keep_controller)
                for companion in self.companions:
                    await companion.prepare(tenure, self.feed.image)
                tenure.shown_before = None  # Companions that need it longer keep a reference.
                await follower.compare_all()
                verifier = TreeVerifier(tenure, self.keeper, self.quarantine, pace)
                nursery.start_soon(verifier.run)
                nursery.start_soon(BrokerWatch(tenure).run)
                nursery.start_soon(ResyncRequests(tenure, verifier).run)
                nursery.start_soon(Sweeper(tenure, self.quarantine).run)
                for companion in self.companions:
                    nursery.start_soon(companion.run, tenure)
                await follower.follow()
        except BaseExceptionGroup as group:
            raise only(group, *_ENDINGS, LeadershipOverError) from None

    def _sections(self) -> Sections:
        return sections_of(self.cluster_id, secrets=self.config.secrets)


def only(group: BaseExceptionGroup[BaseException], *wanted: type[BaseException]) -> BaseException:
    """Returns the first exception of a nursery's group if all are `wanted`, else the group itself."""
    found, others = group.split((*wanted,))
    if found is None or others is not None:
        return group
    leaf: BaseException = found
    while isinstance(leaf, BaseExceptionGroup):
        leaf = leaf.exceptions[0]
    return leaf

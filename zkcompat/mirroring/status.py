"""The status of a mirror, and its report in ZooKeeper, by which `zk status` lists every mirror."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from trimaran.node.runtime.clock import now_ms
from trimaran.wire.identity import NO_CONTROLLER_EPOCH, NO_OFFSET, ControllerEpoch, Offset
from trimaran.wire.transport.scheduling.events import Notifier
from trimaran.zkcompat import events
from trimaran.zkcompat.comparing.quarantine import Quarantine
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.znodes.mirror_report import REFUSALS_SHOWN, REPORT_PARENTS, MirrorReport
from trimaran.zkcompat.zookeeper.errors import PathRefusedError, UncertainOutcomeError
from trimaran.zkcompat.zookeeper.keeper import Keeper


@dataclass(slots=True)
class MirrorStatus:
    """The status of a mirror. Counters only grow. `state` is one of starting, connecting, standby, comparing, in step,
    waiting.
    """

    state: str = "starting"
    published_offset: Offset = NO_OFFSET
    controller_epoch: ControllerEpoch = NO_CONTROLLER_EPOCH
    writes: int = 0
    transactions: int = 0
    claims: int = 0
    comparisons: int = 0
    verifications: int = 0
    repairs: int = 0
    last_problem: str = ""
    _changed: Notifier = field(default_factory=Notifier)

    def tell(self, state: str = "") -> None:
        """Sets the state and wakes all waiters."""
        self.state = state or self.state
        self._changed.notify_all()

    async def wait_for(self, wanted: Callable[[MirrorStatus], bool]) -> None:
        """Returns when `wanted` is true."""
        await trio.lowlevel.checkpoint()
        while not wanted(self):
            await self._changed.wait()


log = logging.getLogger(__name__)

# The interval between reports if nothing changes; a much older one shows that its mirror hangs.
INTERVAL_SECONDS = 5.0
# The interval between two checks for news. A new state is reported at once, so that clients that see the tree
# up to date also see its mirror. States that alternate cause at most ten reports a second.
PAUSE_SECONDS = 1.0
BETWEEN_SECONDS = 0.1
# A healthy quorum writes no-op records twice a second.
QUORUM_SILENCE_SECONDS = 3.0


@dataclass(slots=True)
class Reporting:
    feed: ImageFeed
    keeper: Keeper
    status: MirrorStatus
    quarantine: Quarantine
    admitted: trio.Event = field(default_factory=trio.Event)

    async def run(self) -> None:
        """Writes reports once the tree is known to be our cluster's; a report that cannot be written is written
        later.
        """
        await self.admitted.wait()
        told: tuple[object, ...] = ()
        reported_at = -INTERVAL_SECONDS
        refused = ""
        while True:
            now, state = trio.current_time(), self.status.state
            facts = (self.keeper.session_id, state, len(self.quarantine))
            if self.keeper.is_connected and (
                facts != told or now - reported_at >= INTERVAL_SECONDS
            ):
                try:
                    await self._tell()
                    told, reported_at, refused = facts, now, ""
                except PathRefusedError as problem:
                    if str(problem) != refused:
                        refused = str(problem)
                        events.MIRROR_NOT_REPORTED.log(log, error=problem)
                except UncertainOutcomeError as problem:  # The outage is logged elsewhere.
                    log.debug("The report cannot be written: %s", problem)
            await trio.sleep(BETWEEN_SECONDS)
            with trio.move_on_after(PAUSE_SECONDS):
                await self._other_than(state)

    async def _other_than(self, state: str) -> None:
        await self.status.wait_for(lambda status: status.state != state)

    async def watch_quorum(self) -> None:
        """Logs when the quorum falls silent, when it resumes, and which records of a later Kafka it has."""
        silent, kinds = False, self.feed.image.unknown.kinds[:0]
        while True:
            unknown = self.feed.image.unknown
            if unknown.kinds and unknown.kinds != kinds:
                events.MIRROR_UNKNOWN_RECORDS.log(log, records=unknown.text)
            kinds = unknown.kinds
            seconds = self.feed.silent_seconds()
            if QUORUM_SILENCE_SECONDS <= seconds < float("inf") and not silent:
                silent = True
                events.MIRROR_QUORUM_SILENT.log(
                    log, seconds=seconds, offset=self.status.published_offset
                )
            elif seconds < QUORUM_SILENCE_SECONDS and silent:
                silent = False
                events.MIRROR_QUORUM_HEARD.log(log)
            await trio.sleep(PAUSE_SECONDS)

    async def _tell(self) -> None:
        for parent in REPORT_PARENTS:
            await self.keeper.ensure(parent, None)
        path = MirrorReport.path(self.keeper.session_id)
        await self.keeper.put_own(path, self._report().encode())

    def _report(self) -> MirrorReport:
        status, image = self.status, self.feed.image
        return MirrorReport(
            host=socket.gethostname(),
            pid=os.getpid(),
            state=status.state,
            told_ms=now_ms(),
            published_offset=status.published_offset,
            quorum_offset=image.provenance.offset,
            lag_ms=self.feed.lag_ms(status.published_offset),
            quorum_heard_ms=self.feed.heard_ms,
            claims=status.claims,
            repairs=status.repairs,
            quarantined=len(self.quarantine),
            refusals=[entry.sentence() for entry in list(self.quarantine)[:REFUSALS_SHOWN]],
            last_problem=status.last_problem,
            unknown=image.unknown.text,
        )

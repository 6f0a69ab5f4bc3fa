"""Observes the quorum and ZooKeeper from outside during a fault, and reports when the two are equal again. A thread
runs trio with an observer of the quorum, and with its own ZooKeeper sessions, which bypass any proxy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

import trio

from tests.chaos.mirror.changes import PULSE, PULSE_BASE, PULSE_KEY
from tests.chaos.mirror.quorums import Quorum
from trimaran.zkcompat.comparing.verify import TreeVerification, VerifyReport
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.quorum_feed.observer import find_cluster_id, open_observer, parse_controllers
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.settings import keeper_config, mirror_config, quorum_security
from trimaran.zkcompat.znodes.broker_info import BROKER_IDS
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.errors import PathRefusedError, UncertainOutcomeError
from trimaran.zkcompat.zookeeper.keeper import Keeper, open_keeper

START_SECONDS = 30.0
LOOK_SECONDS = 0.004
# Session timeout of an eye; after this time without a response it opens another session.
SESSION_MS = 4000
CONNECT_SECONDS = 1.0
AGAIN_SECONDS = 0.02
LAST_PULSE_SECONDS = 2.0
# A healthy quorum writes no-op records twice a second.
SILENT_SECONDS = 2.0


@dataclass
class Sight:
    """Observations during a fault: when each pulse was last missing in ZooKeeper, and for how long a broker was
    missing.
    """

    pulses: dict[int, float] = field(default_factory=dict)
    gone_seconds: float = 0.0

    def behind(self, acked: Mapping[int, float]) -> list[float]:
        """Returns for each pulse the minimum time in seconds for which it was missing in ZooKeeper after its response.
        The time is infinite if neither the pulse nor a later one was ever seen there.
        """
        seen = dict(self.pulses)
        found: list[float] = []
        first = float("inf")
        for number in sorted({*acked, *seen}, reverse=True):
            first = min(first, seen.get(number, first))
            if number in acked:
                found.append(max(0.0, first - acked[number]))
        return found


def in_step_but_for_pulses(report: VerifyReport, before: Migration, newest: int) -> VerifyReport:
    """Returns the report of a comparison that began with `before`, without the changes by pulses meanwhile. `zk verify`
    needs a tree that does not change, but a comparison may take longer than the time between two pulses, so that the
    result would depend on the speed of the eye instead of the mirror. Any other change during the comparison is a
    difference.
    """
    pulse = EntityConfig.topic_path(PULSE)
    return replace(
        report,
        settled=not before.dirty and before.offset >= newest,
        differences=tuple(d for d in report.differences if d.path != pulse),
    )


async def _published(keeper: Keeper) -> Migration:
    znode = await keeper.read(Migration.PATH)
    return decode_or_none(Migration.decode, znode.data if znode else None) or Migration(dirty=True)


class Eye:
    def __init__(self, quorum: Quorum, connect: str) -> None:
        self._controllers = quorum.controllers
        self._security = quorum_security(quorum.properties)
        keys = {**quorum.properties, "zookeeper.session.timeout.ms": str(SESSION_MS)}
        self._keeper = keeper_config(connect, keys)
        self._secrets = mirror_config(quorum.properties).secrets
        self._brokers = {str(broker) for broker in quorum.brokers}
        self.sight = Sight()
        self._feed = ImageFeed()
        self._cluster_id = ""
        self._token: trio.lowlevel.TrioToken | None = None
        self._scope = trio.CancelScope()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=(self._main,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_SECONDS), "nobody sees the quorum"
        return self

    def __exit__(self, *_: object) -> None:
        assert self._token is not None
        self._token.run_sync_soon(self._scope.cancel)
        self._thread.join()

    def equal(self, seconds: float) -> tuple[float, VerifyReport]:
        """Returns the time (`time.monotonic`) at which ZooKeeper was equal to the quorum's current metadata, and the
        report; infinity if it was not equal within `seconds`.
        """
        return trio.from_thread.run(self._equal, seconds, trio_token=self._token)

    def behind(self, acked: Mapping[int, float]) -> list[float]:
        """Returns `Sight.behind` once the last pulse was seen, or has had enough time."""
        deadline = time.monotonic() + LAST_PULSE_SECONDS
        while acked and max(self.sight.pulses, default=0) < max(acked):
            if time.monotonic() > deadline:
                break
            time.sleep(LOOK_SECONDS)
        return self.sight.behind(acked)

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        addresses = parse_controllers(self._controllers)
        self._cluster_id = await find_cluster_id(addresses, START_SECONDS, self._security)
        with self._scope:
            async with open_observer(self._cluster_id, addresses, self._security) as feed:
                self._feed = feed
                await feed.wait_for(lambda f: f.ready)
                self._ready.set()
                while True:
                    async with open_keeper(self._keeper) as keeper:
                        if await keeper.wait_connected(CONNECT_SECONDS):
                            await self._look_on(keeper)

    async def _look_on(self, keeper: Keeper) -> None:
        """Watches until the connection is lost."""
        last = time.monotonic()
        while keeper.is_connected:
            began = time.monotonic()
            try:
                with trio.fail_after(CONNECT_SECONDS):
                    ids = await keeper.children(BROKER_IDS)
                    znode = await keeper.read(EntityConfig.topic_path(PULSE))
            except (UncertainOutcomeError, PathRefusedError, trio.TooSlowError):
                return
            if not self._brokers <= set(ids):
                self.sight.gone_seconds += began - last
            config = decode_or_none(EntityConfig.decode, znode.data if znode else None)
            value = config.config.get(PULSE_KEY) if config else None
            if value is not None:
                self.sight.pulses.setdefault(int(value) - PULSE_BASE, last)
            last = began
            await trio.sleep(LOOK_SECONDS)

    async def _equal(self, seconds: float) -> tuple[float, VerifyReport]:
        report = VerifyReport(0, -1, 0, 0, settled=False)
        newest = self._feed.image.provenance.offset
        sections = sections_of(self._cluster_id, secrets=self._secrets)
        with trio.move_on_after(seconds):
            while True:
                async with open_keeper(self._keeper) as keeper:
                    if not await keeper.wait_connected(CONNECT_SECONDS):
                        continue
                    verification = TreeVerification(self._feed, keeper, sections)
                    with suppress(UncertainOutcomeError, PathRefusedError):
                        while True:
                            began = time.monotonic()
                            before = await _published(keeper)
                            report = in_step_but_for_pulses(
                                await verification.attempt(), before, newest
                            )
                            heard = self._feed.silent_seconds() < SILENT_SECONDS
                            if report.in_step and heard:
                                return began, report
                            await trio.sleep(AGAIN_SECONDS)
        return float("inf"), report

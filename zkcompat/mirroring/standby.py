"""Waiting while another mirror holds the claim.

A live mirror keeps its claim: there is one claim at a time. A dead or frozen mirror is replaced before its session
ends, so that brokers do not vanish in between. It is distinguished from a slow one by `/migration`, which each
transaction of a mirror writes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio

from trimaran.zkcompat import events
from trimaran.zkcompat.mirroring.status import MirrorStatus
from trimaran.zkcompat.quorum_feed.feed import ImageFeed
from trimaran.zkcompat.znodes.controller import ControllerZnode
from trimaran.zkcompat.znodes.json_form import decode_or_none
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.zookeeper.keeper import Keeper

log = logging.getLogger(__name__)

POLL_SECONDS = 2.0  # A watch reports at once; the poll covers changes that no watch reports.
# A mirror that has been silent for this share of a session timeout though there is something to write is replaced:
# before its session ends, but after seconds in which a live mirror would have written the change.
TAKE_OVER_SHARE = 1 / 3


@dataclass(slots=True)
class Standby:
    feed: ImageFeed
    keeper: Keeper
    status: MirrorStatus

    async def wait(self) -> None:
        """Returns when no other mirror holds the claim, or when the other mirror is silent although there is a change
        to write.

        Raises PathRefusedError or UncertainOutcomeError.
        """
        patience = self.keeper.config.session_timeout_ms / 1000 * TAKE_OVER_SHARE
        poll = min(POLL_SECONDS, patience / 4)
        seen, since = -1, trio.current_time()
        while True:
            controller = await self.keeper.read(ControllerZnode.PATH)
            if controller is None or self._is_nobodys(controller.owner):
                return
            self.status.tell("standby")
            found = await self.keeper.read(Migration.PATH)
            state = decode_or_none(Migration.decode, found.data if found else None) or Migration()
            version = found.version if found else -1
            if version != seen or state.offset >= self.feed.image.provenance.offset:
                seen, since = version, trio.current_time()
            elif trio.current_time() - since > patience:
                events.MIRROR_TAKES_OVER.log(log)
                return
            if await self.keeper.wait_deleted(ControllerZnode.PATH, poll):
                return

    def _is_nobodys(self, owner: int) -> bool:
        """True for the owner 0, and for an earlier session of this mirror, which the servers have not ended yet."""
        return owner == 0 or self.keeper.was_ours(owner)

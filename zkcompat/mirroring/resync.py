"""A request in ZooKeeper that the leading mirror compare the whole tree now: the requester creates a znode, and the
mirror deletes it when done.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio

from trimaran.zkcompat import events
from trimaran.zkcompat.mirroring.tenure import StepRefusedError, Tenure
from trimaran.zkcompat.mirroring.verifier import TreeVerifier
from trimaran.zkcompat.tree.claim import TransactionStep
from trimaran.zkcompat.znodes.mirror_report import REPORT_PARENTS
from trimaran.zkcompat.zookeeper.errors import PathRefusedError
from trimaran.zkcompat.zookeeper.keeper import Keeper

log = logging.getLogger(__name__)

PATH = f"{REPORT_PARENTS[0]}/resync"
# Repeated requests must not keep the mirror from its work.
PAUSE_SECONDS = 1.0
# The pause after a request that may not be read or deleted.
RETRY_SECONDS = 5.0
POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class ResyncRequests:
    tenure: Tenure
    verifier: TreeVerifier

    async def run(self) -> None:
        """Serves requests while the tenure lasts."""
        answered, told = 0, ""
        while True:
            changed = trio.Event()
            try:
                asked = await self.tenure.keeper.read(PATH, changed.set)
                if asked is None:
                    await changed.wait()
                    continue
                if asked.created_zxid != answered:
                    events.MIRROR_RESYNC.log(log)
                    await self.verifier.verify()
                    await self.tenure.wait_no_suspects()
                    answered = asked.created_zxid
                await self.tenure.transact([TransactionStep("delete", PATH)])
                await trio.sleep(PAUSE_SECONDS)
            except (PathRefusedError, StepRefusedError) as refused:
                if str(refused) != told:
                    told = str(refused)
                    events.MIRROR_RESYNC_REQUEST_STAYS.log(log, error=refused)
                await trio.sleep(RETRY_SECONDS)


async def request_resync(keeper: Keeper, time_limit_seconds: float) -> bool:
    """Returns True if a mirror compared the tree within the limit. Raises PathRefusedError or UncertainOutcomeError."""
    for parent in REPORT_PARENTS[:1]:
        await keeper.ensure(parent, None)
    await keeper.ensure(PATH, None)
    with trio.move_on_after(time_limit_seconds):
        while await keeper.read(PATH) is not None:
            await keeper.wait_deleted(PATH, POLL_SECONDS)
        return True
    return False

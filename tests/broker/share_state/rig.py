"""A share coordinator over a real log; the test controls the metadata and the commits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from tests.broker.coordination.leader import Leader, open_log
from tests.broker.share_state.driver import TOPIC_ID
from tests.broker.transactions.rig import HERE, Metadata
from tests.cluster.data_side import partition, topic
from trimaran.broker.metadata.internal_topics import SHARE_GROUP_STATE
from trimaran.broker.share_state.coordinator import ShareCoordinator
from trimaran.broker.share_state.limits import ShareLimits
from trimaran.quorum.metadata.image import TopicImage


def topic_t(partitions: int = 3) -> TopicImage:
    """Returns the topic `t`, which has the id `TOPIC_ID`."""
    return TopicImage("t", TOPIC_ID, topic("t", *[partition((HERE,))] * partitions).partitions)


def states_topic(*leaders: int) -> TopicImage:
    return topic(SHARE_GROUP_STATE, *(partition((one,)) for one in leaders))


class Rig:
    """`__share_group_state` has one partition. It is a `ShareContext` as far as handlers need it."""

    authorizer = None

    def __init__(self, directory: Path, limits: ShareLimits) -> None:
        self.metadata = Metadata(states_topic(HERE), topic_t())
        self.shares = ShareCoordinator(limits, self.metadata)
        self.leader = Leader(open_log(directory / f"{SHARE_GROUP_STATE}-0"), 0)

    def lead(self) -> None:
        self.shares.runtime.began(0, self.leader)

    def resign(self) -> None:
        self.leader.high_watermark.close()
        self.shares.runtime.ended(0, self.leader.epoch)

    async def reload(self) -> None:
        """Begins another epoch, which loads what is in the log."""
        self.resign()
        self.leader = Leader(self.leader.log, self.leader.epoch + 1)
        self.lead()
        await self.epoch.wait_loaded()

    @property
    def epoch(self) -> Any:
        return self.shares.runtime.epoch_of(0)


@asynccontextmanager
async def open_rig(
    directory: Path, *, leads: bool = True, limits: ShareLimits | None = None
) -> AsyncIterator[Rig]:
    rig = Rig(directory, limits or ShareLimits())
    async with trio.open_nursery() as nursery:
        await nursery.start(rig.shares.runtime.run)
        try:
            if leads:
                rig.lead()
                await rig.epoch.wait_loaded()
            yield rig
        finally:
            nursery.cancel_scope.cancel()
            rig.leader.log.close()

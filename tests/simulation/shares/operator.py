"""An operator of one share group: when its members have left, it alters or deletes offsets, or deletes the group. The
members return when the coordinator has finished this request: as in Kafka, nothing protects them from a late
alteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import trio

from tests.simulation.coordinators.channels import REQUEST_SECONDS
from tests.simulation.coordinators.client import GROUP, CoordinatorClient, GaveUp, Refused
from tests.simulation.coordinators.rules import INPUT
from tests.simulation.shares.consumer import ShareConsumer
from tests.simulation.shares.rules import ALTERED
from trimaran.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from trimaran.wire.messages.delete_groups import DeleteGroupsRequest
from trimaran.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.coordinators.broker import CoordinatorBroker
    from tests.simulation.shares.world import SharesWorld


class GroupOperator(CoordinatorClient):
    """The operator of `members`, all members of the group ALTERED."""

    world: SharesWorld

    def __init__(self, world: SharesWorld, members: Sequence[ShareConsumer]) -> None:
        super().__init__(world, "operator")
        self._members = members
        self._at_work = 0

    async def _served(self, broker: CoordinatorBroker, request: Message, version: int) -> Any:
        self._at_work += 1
        try:
            return await super()._served(broker, request, version)
        finally:
            self._at_work -= 1

    async def run(self) -> None:
        while not self.world.is_calm:
            await trio.sleep(self.world.prng.uniform(0.5, 1.8))
            if self.world.is_calm:
                return
            for member in self._members:
                await member.leave()
            await self._alter()
            for member in self._members:
                member.is_away = False

    async def _alter(self) -> None:
        request, version = self._request()
        while True:
            try:
                await self.ask_coordinator(GROUP, ALTERED, request, version, attempts=1)
            except Refused:
                return
            except GaveUp:
                # Waits until a request between brokers has arrived or never will.
                await trio.sleep(REQUEST_SECONDS + 0.1)
                while self._at_work:
                    await self.pause()
            else:
                return
            if self.world.prng.random() < 0.5 or self.world.is_calm:
                return

    def _request(self) -> tuple[Message, int]:
        prng = self.world.prng
        chosen = prng.choice(("alter", "alter", "delete offsets", "delete group"))
        if chosen == "delete group":
            return DeleteGroupsRequest(groups_names=[ALTERED]), 2
        if chosen == "delete offsets":
            topic = DeleteShareGroupOffsetsRequestTopic(topic_name=INPUT)
            return DeleteShareGroupOffsetsRequest(group_id=ALTERED, topics=[topic]), 0
        partitions = [
            AlterShareGroupOffsetsRequestPartition(
                partition_index=index,
                start_offset=prng.randint(0, self.world.checker.histories[key].end),
            )
            for key in self.world.input_keys
            for index in (key[1],)
            if prng.random() < 0.8
        ]
        altered = AlterShareGroupOffsetsRequestTopic(topic_name=INPUT, partitions=partitions)
        return AlterShareGroupOffsetsRequest(group_id=ALTERED, topics=[altered]), 0

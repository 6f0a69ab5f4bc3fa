"""Producer ids, from blocks that the controller allocates (KIP-730): never reused; a restart loses the rest of a block.

Source: `RPCProducerIdManager` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from trimaran.broker.channels.controller_channel import ControllerCalls
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId
from trimaran.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)

ALLOCATE_SECONDS = 5.0


class ProducerIdManager:
    """Hands out ids one by one; requests a new block when none is left."""

    def __init__(
        self,
        controller: ControllerCalls,
        broker_id: BrokerId,
        broker_epoch: Callable[[], BrokerEpoch],
    ) -> None:
        self._controller = controller
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._next = 0
        self._end = 0
        self._lock = trio.Lock()

    async def take(self) -> int:
        """Returns a new id. Raises KafkaError COORDINATOR_LOAD_IN_PROGRESS (retriable) while no block can be
        obtained.
        """
        async with self._lock:
            if self._next >= self._end:
                await self._allocate()
            producer_id = self._next
            self._next += 1
            return producer_id

    async def _allocate(self) -> None:
        request = AllocateProducerIdsRequest(
            broker_id=self._broker_id, broker_epoch=self._broker_epoch()
        )
        try:
            response = await self._controller.call(request, timeout=ALLOCATE_SECONDS)
        except KafkaError as error:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
        assert isinstance(response, AllocateProducerIdsResponse)
        if response.error_code or response.producer_id_len <= 0:
            name = ErrorCode.of(response.error_code).name
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {name}")
        if response.producer_id_start < 0:
            why = f"a block of producer ids from {response.producer_id_start} on"
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, why)
        self._next = response.producer_id_start
        self._end = self._next + response.producer_id_len

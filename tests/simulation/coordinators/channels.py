"""Requests between brokers: transaction markers, and the verification of partitions in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio

from tests.simulation.coordinators.frames import Frames
from tests.simulation.coordinators.telling import brief
from tests.simulation.partitions.network import Lost
from trimaran.broker.channels.broker_channel import NotSent, OutcomeUnknown
from trimaran.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from trimaran.wire.schema import Message

if TYPE_CHECKING:
    from tests.simulation.coordinators.broker import CoordinatorBroker

REQUEST_SECONDS = 0.8
# Seconds until a connection is refused.
REFUSED_SECONDS = 0.05
VERSIONS = {
    "WriteTxnMarkersRequest": 2,
    "AddPartitionsToTxnRequest": 5,
    "ProduceRequest": 13,
    "InitializeShareGroupStateRequest": 0,
    "ReadShareGroupStateRequest": 0,
    "ReadShareGroupStateSummaryRequest": 1,
    "WriteShareGroupStateRequest": 1,
    "DeleteShareGroupStateRequest": 0,
}


# A late initialization would reset a state that is already in use: as in Kafka, its epoch is not older.
NEVER_LATE = {"InitializeShareGroupStateRequest", "DeleteShareGroupStateRequest"}


class SimChannels:
    """A replacement of `BrokerChannels`, in which late requests arrive even if their sender no longer waits."""

    def __init__(self, broker: CoordinatorBroker) -> None:
        self._broker = broker

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        await trio.sleep_forever()

    async def call(self, broker_id: int, request: Message, *, timeout: float) -> Any:  # noqa: ASYNC109
        """Returns the response; raises NotSent, OutcomeUnknown."""
        world = self._broker.world
        target = world.brokers.get(broker_id)
        if target is None:
            raise NotSent(f"broker {broker_id} is not known")
        version = VERSIONS[type(request).__name__]
        is_end, faults = isinstance(request, WriteTxnMarkersRequest), world.faults
        stuck = faults.stuck_ends if is_end else faults.stuck
        frames = Frames(target, f"broker-{self._broker.id}", version)
        if world.trace is not None:
            world.say(self._broker.id, "→", broker_id, brief(request))
        try:
            return await world.network.ask(
                self._broker.id,
                target,
                lambda: frames.handle(request),
                REQUEST_SECONDS,
                stuck=stuck,
                may_be_late=type(request).__name__ not in NEVER_LATE,
                may_be_stuck=lambda: not is_end or self._may_be_stuck(request),
            )
        except Lost:
            raise OutcomeUnknown(f"broker {broker_id}: no answer") from None

    def _may_be_stuck(self, request: Any) -> bool:
        """Whether a late marker is harmless. Up to `transaction.version` 1 this holds only if another coordinator has
        written a marker since; otherwise a late marker cannot be distinguished from one of the next transaction, which
        is the reason for version 2 (KIP-890).
        """
        transactions = self._broker.world.checker.transactions
        return self._broker.world.rules.bumps or all(
            transactions.has_newer_coordinator((topic.name, index), marker)
            for marker in request.markers
            for topic in marker.topics
            for index in topic.partition_indexes
        )

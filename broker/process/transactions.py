"""The parts of a broker that transactions need: coordinator, markers, verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from trimaran.broker.channels.broker_channels import Channels
from trimaran.broker.metadata.metadata_cache import BrokerMetadata
from trimaran.broker.producing.producer_ids import ProducerIds
from trimaran.broker.transactions.coordinator import TransactionCoordinator
from trimaran.broker.transactions.limits import TransactionLimits
from trimaran.broker.transactions.markers import MarkerWriter
from trimaran.broker.transactions.marking import Marking
from trimaran.broker.transactions.verification import TransactionVerifier
from trimaran.node.config.server import ServerConfig


@dataclass(frozen=True, slots=True)
class Transactions:
    """`run` must be running before requests come. Markers have connections of their own: they wait for replicas."""

    coordinator: TransactionCoordinator
    verifier: TransactionVerifier
    markers: MarkerWriter
    marker_channels: Channels
    verifier_channels: Channels

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(self.marker_channels.run)
            await nursery.start(self.verifier_channels.run)
            await nursery.start(self.markers.run)
            await nursery.start(self.verifier.run)
            await nursery.start(self.coordinator.runtime.run)
            task_status.started()


def transactions(
    config: ServerConfig,
    metadata: BrokerMetadata,
    marking: Marking,
    producer_ids: ProducerIds,
    open_channels: Callable[[str], Channels],
    verifies: Callable[[], bool],
) -> Transactions:
    """`open_channels` makes channels for a purpose; `verifies`: transaction.partition.verification.enable, as it is
    now.
    """
    seconds = config["request.timeout.ms"] / 1000
    marker_channels, verifier_channels = open_channels("markers"), open_channels("transactions")
    markers = MarkerWriter(config.node_id, marking, marker_channels, metadata, seconds)
    limits = TransactionLimits.of(config)
    coordinator = TransactionCoordinator(limits, metadata, producer_ids, markers)
    verifier = TransactionVerifier(
        config.node_id, coordinator, verifier_channels, metadata, seconds, verifies
    )
    return Transactions(coordinator, verifier, markers, marker_channels, verifier_channels)

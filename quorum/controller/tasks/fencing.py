"""Tasks of an active controller that fence brokers whose lease has expired or whose process has ended.

A closed connection is only a hint, which makes the controller probe the broker (`reachability`). Source: Kafka's
`BrokerHeartbeatManager`, which has only leases.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps, pieces
from trimaran.quorum import events
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.nodes.brokers import ProcessedPartitions, fence_broker
from trimaran.quorum.controller.partitions.broker_changes import taken_out
from trimaran.quorum.controller.partitions.index import PARTITIONS_PER_STEP
from trimaran.quorum.controller.tasks.own_decisions import (
    WRITE_AGAIN_SECONDS,
    list_partitions,
    perform,
)
from trimaran.quorum.metadata.image import BrokerRegistration, MetadataImage
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import BrokerEpoch, BrokerId, TopicIdPartition

log = logging.getLogger(__name__)

# A wake-up later than this means that the loop was blocked or starved. Heartbeats are then still unread, and all
# brokers would be fenced immediately.
LATE_SECONDS = 0.1
# The time for reading queued heartbeats. Without it, the lease whose expiry was awaited would end before they are read.
READING_SECONDS = 0.5
# A probe costs one connection to each listener.
PROBE_INTERVAL_SECONDS = 0.25


async def fence_expired(active: ActiveController, session_seconds: float) -> None:
    """Fences brokers whose lease has expired."""
    while True:
        now = trio.current_time()
        for lease in active.leases.expired(now):
            if lease.deadline <= now:  # a heartbeat may have come during the fencing of others
                await _fence(
                    active, lease.broker_id, lease.broker_epoch, "its session has timed out"
                )
        # Every lease that begins during the sleep ends later than this.
        deadline = active.leases.next_deadline() or now + session_seconds
        wake_at = min(deadline, now + session_seconds)
        await trio.sleep_until(wake_at)
        late = trio.current_time() - wake_at
        if late > LATE_SECONDS:
            active.leases.extend_all(late + READING_SECONDS)


async def probe_suspects(active: ActiveController) -> None:
    """Fences brokers that have closed their connection and no longer listen."""
    async with trio.open_nursery() as nursery:
        while True:
            await active.suspected.wait()
            suspects, active.suspects = active.suspects, {}
            for broker_id, broker_epoch in suspects.items():
                nursery.start_soon(_probe, active, broker_id, broker_epoch)


async def suspect_disconnected(active: ActiveController) -> None:
    """Probes each broker without a connection until it sends a heartbeat, is fenced, or its lease expires."""
    while True:
        for lease in active.leases.disconnected_leases():
            active.suspect(lease.broker_id, lease.broker_epoch)
        await trio.sleep(PROBE_INTERVAL_SECONDS)


async def _probe(active: ActiveController, broker_id: BrokerId, broker_epoch: BrokerEpoch) -> None:
    broker = _incarnation(active.image, broker_id, broker_epoch)
    if broker is None or not await active.reachability.has_ended(broker):
        return
    lease = active.leases.get(broker_id, broker_epoch)
    if lease is None or not lease.disconnected:
        return
    if trio.current_time() >= lease.expected_by:
        await _fence(active, broker_id, broker_epoch, "its process has ended")


async def _fence(
    active: ActiveController, broker_id: BrokerId, broker_epoch: BrokerEpoch, why: str
) -> None:
    """Fences the broker; if the log refuses the records, retries later."""
    active.leases.end(broker_id)
    broker = _incarnation(active.image, broker_id, broker_epoch)
    if broker is None or broker.fenced:
        return
    events.BROKER_FENCED_BY_CONTROLLER.log(log, broker=broker_id, epoch=broker_epoch, reason=why)
    try:
        await _fence_in_steps(active, broker)
    except KafkaError as error:
        events.CONTROLLER_FENCING_POSTPONED.log(log, broker=broker_id, error=error)
        lease = active.leases.extend(broker_id, broker_epoch, trio.current_time())
        lease.deadline = trio.current_time() + WRITE_AGAIN_SECONDS


async def _fence_in_steps(active: ActiveController, broker: BrokerRegistration) -> None:
    """Removes the broker from its ISRs in batches, each in its own turn; the last turn handles the rest and fences the
    broker.
    """
    decided = ProcessedPartitions()

    def leave(keys: Sequence[TopicIdPartition]) -> Steps[None]:
        if _incarnation(active.image, broker.id, broker.epoch) is not None:
            records = yield from taken_out(active.state, broker.id, keys=keys)
            yield from active.write(Result(records, None, atomic=False))
            decided.note(active.state, keys)

    def fence() -> Steps[None]:
        known = _incarnation(active.image, broker.id, broker.epoch)
        if known is not None and not known.fenced:
            others = decided.others(active.state, active.state.index.in_sync(broker.id))
            records = yield from fence_broker(active.state, known, others)
            yield from active.write(Result(records, None, atomic=False))

    keys = await perform(active, list_partitions(active, lambda index: index.in_sync(broker.id)))
    for batch in pieces(keys, PARTITIONS_PER_STEP):
        await perform(active, leave(batch))
    await perform(active, fence())


def _incarnation(
    image: MetadataImage, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> BrokerRegistration | None:
    broker = image.cluster.brokers.get(broker_id)
    return broker if broker is not None and broker.epoch == broker_epoch else None

"""Periodic tasks of an active controller: electing leaders and moving them back, draining brokers, expiring tokens, and
writing no-op records.

Each task lasts as long as the epoch; an interval of 0 seconds means never. Source: the periodic tasks of Kafka's
`QuorumController`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.clock import now_ms
from trimaran.node.runtime.steps import Steps
from trimaran.quorum import events
from trimaran.quorum.controller.active_controller import ActiveController
from trimaran.quorum.controller.nodes.leases import Lease
from trimaran.quorum.controller.partitions.broker_changes import changes_with, changes_without
from trimaran.quorum.controller.partitions.elections import balance_leaders, elect_unclean
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.controller.security.delegation_tokens import EXPIRED_MAX, expired_tokens
from trimaran.quorum.controller.tasks.own_decisions import perform, process_partitions, try_to_write
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.schema import Message

log = logging.getLogger(__name__)


async def write_no_op_records(active: ActiveController, idle_seconds: float) -> None:
    """Writes a no-op record when no other record was written for `idle_seconds` (KIP-835)."""
    while idle_seconds:
        before = active.next_offset
        await trio.sleep(idle_seconds)
        if active.next_offset == before:
            await perform(active, try_to_write(active, Result([NoOpRecord()], None)))


async def expire_tokens(active: ActiveController, interval_seconds: float) -> None:
    """Removes expired delegation tokens; if there are more than one sweep removes, it sweeps again immediately."""

    def expire() -> Steps[int]:
        records = expired_tokens(active.image.tokens, now_ms=now_ms())
        if records:
            yield from try_to_write(active, Result(records, None))
        return len(records)

    while interval_seconds:
        expired = await perform(active, expire())
        if expired < EXPIRED_MAX:
            await trio.sleep(interval_seconds)


async def balance(active: ActiveController, interval_seconds: float) -> None:
    """Moves leaderships back to preferred replicas periodically."""
    while interval_seconds:
        await trio.sleep(interval_seconds)
        changed = await process_partitions(active, lambda index: index.imbalanced, balance_leaders)
        if changed:
            events.CONTROLLER_LEADERS_BALANCED.log(log, partitions=changed)


async def elect_missing_leaders(active: ActiveController) -> None:
    """Elects leaders for leaderless partitions: when a broker returns, and at the start of the epoch."""
    active.leaders_wanted.set()
    while True:
        await active.leaders_wanted.wait()
        await process_partitions(active, lambda index: index.leaderless, _changes_with_active)


async def elect_uncleanly(active: ActiveController) -> None:
    """Elects leaders for leaderless partitions whose topics allow unclean elections."""
    while True:
        await active.unclean_wanted.wait()
        changed = await process_partitions(active, lambda index: index.leaderless, elect_unclean)
        if changed:
            events.UNCLEAN_ELECTION.log(log, partitions=changed)


async def schedule_unclean_elections(active: ActiveController, interval_seconds: float) -> None:
    while interval_seconds:
        await trio.sleep(interval_seconds)
        active.unclean_wanted.set()


async def drain_leaving_brokers(active: ActiveController) -> None:
    """Moves the remaining partitions off brokers in controlled shutdown; the first step moved only a part."""
    while True:
        await active.draining.wait()
        for lease in active.leases.draining():
            await _drain(active, lease)


async def _drain(active: ActiveController, lease: Lease) -> None:
    def decide(state: ControllerState, keys: Sequence[TopicIdPartition]) -> Sequence[Message]:
        if not lease.draining or active.leases.of(lease.broker_id) is not lease:
            return ()
        return changes_without(state, lease.broker_id, keys=keys)

    await process_partitions(active, lambda index: index.in_sync(lease.broker_id), decide)
    if lease.draining:  # otherwise it was fenced meanwhile and starts again
        lease.shutdown_offset, lease.draining = active.next_offset - 1, False


def _changes_with_active(
    state: ControllerState, keys: Sequence[TopicIdPartition]
) -> Sequence[Message]:
    return changes_with(state, keys=keys)

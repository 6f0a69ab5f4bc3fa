"""Changes of the states of share partitions by administrators: the group coordinator decides, share coordinators store.

Source: `persisterInitialize`, `deleteShareGroups`, `deleteShareGroupOffsetsState` of Kafka 4.4's
`GroupCoordinatorService`.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.offsets import Altered, States
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.share_state.changes import (
    Outcomes,
    by_topic,
    delete_all,
    delete_of_groups,
    initialize_all,
)
from trimaran.node.replicated.pending import PendingResponse
from trimaran.wire.errors import KeptError


async def initialize(ctx: GroupContext, group_id: str, begun: Altered) -> Outcomes:
    """Stores initial states, and then their outcome in the group. Raises KafkaError if the group cannot store the
    outcome.
    """
    outcomes = await initialize_all(ctx.share_states, group_id, *begun)
    outcome = await by_topic(outcomes)
    pending = ctx.groups.decide(
        share.KIND, group_id, lambda groups, at: groups.finish(group_id, outcome, at)
    )
    await pending.wait()
    return outcomes


async def delete(ctx: GroupContext, group_id: str, states: States) -> Outcomes:
    """Deletes states, and removes each topic without errors from the group. Raises KafkaError if the group cannot store
    that.
    """
    outcomes = await delete_all(ctx.share_states, group_id, states.partitions())
    failed = {partition.topic_id for partition, error in outcomes.items() if error is not None}
    gone = states.topics.keys() - failed
    if gone:
        pending = ctx.groups.decide(
            share.KIND, group_id, lambda groups, at: groups.offsets_deleted(group_id, gone, at)
        )
        await pending.wait()
    return outcomes


def released(ctx: GroupContext, group_id: str) -> PendingResponse[States]:
    """Decides that all states of a group will be deleted, because the group will be. Raises KafkaError: the group
    stays.
    """
    return ctx.groups.decide(share.KIND, group_id, lambda groups, at: groups.release(group_id, at))


async def delete_released(ctx: GroupContext, states: Mapping[str, States]) -> dict[str, KeptError]:
    """Deletes the states of many groups; returns the errors of groups that must stay."""
    partitions = {group_id: mine.partitions() for group_id, mine in states.items()}
    return await delete_of_groups(ctx.share_states, partitions)

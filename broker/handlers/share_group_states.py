"""Changes of the states of share partitions by administrators: the group coordinator decides, share coordinators store.

Source: `persisterInitialize`, `deleteShareGroups`, `deleteShareGroupOffsetsState` of Kafka 4.4's
`GroupCoordinatorService`.
"""

from __future__ import annotations

from trimaran.broker.groups.share import kind as share
from trimaran.broker.groups.share.offsets import States
from trimaran.broker.groups.share.operation import Initialization
from trimaran.broker.handlers.context import GroupContext
from trimaran.broker.share_state.changes import Outcomes, by_topic, delete_all, initialize_all


async def initialize(ctx: GroupContext, group_id: str, begun: Initialization) -> Outcomes:
    """Stores initial states, and tells the group. Raises KafkaError if the group cannot store it."""
    outcomes = await initialize_all(ctx.share_states, group_id, *begun)
    done, failed = await by_topic(outcomes)
    pending = ctx.groups.decide(
        share.KIND, group_id, lambda groups, at: groups.finish(group_id, done, failed, at)
    )
    await pending.wait()
    return outcomes


async def delete(ctx: GroupContext, group_id: str, states: States) -> Outcomes:
    """Deletes states, and tells the group about each topic without errors. Raises KafkaError if the group cannot store
    it.
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


async def release(ctx: GroupContext, group_id: str) -> None:
    """Deletes all states of a group that will be deleted. Raises KafkaError: the group stays."""
    pending = ctx.groups.decide(
        share.KIND, group_id, lambda groups, at: groups.release(group_id, at)
    )
    released = await pending.wait()
    outcomes = await delete_all(ctx.share_states, group_id, released.partitions())
    for error in outcomes.values():
        if error is not None:
            raise error.as_error()

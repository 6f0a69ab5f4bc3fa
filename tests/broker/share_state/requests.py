"""Requests about the states of share partitions, and their handlers over a real log."""

from __future__ import annotations

from tests.broker.calls import answered, call, through_wire
from tests.broker.share_state.driver import TOPIC_ID
from trimaran.broker.handlers.delete_share_group_state import delete_share_group_state
from trimaran.broker.handlers.initialize_share_group_state import initialize_share_group_state
from trimaran.broker.handlers.read_share_group_state import read_share_group_state
from trimaran.broker.handlers.read_share_group_state_summary import read_share_group_state_summary
from trimaran.broker.handlers.write_share_group_state import write_share_group_state
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages import delete_share_group_state as deleting
from trimaran.wire.messages import initialize_share_group_state as initializing
from trimaran.wire.messages import read_share_group_state as reading
from trimaran.wire.messages import read_share_group_state_summary as summing
from trimaran.wire.messages import write_share_group_state as writing
from trimaran.wire.transport.requests.handles import declaration_of

E = ErrorCode
UNKNOWN_ID = bytes(15) + b"\x63"
HANDLERS = [
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
    delete_share_group_state,
    read_share_group_state_summary,
]


def initialize(*indexes, topic_id=TOPIC_ID, start_offset=100, group_id="g"):
    items = [
        initializing.PartitionData(partition=index, state_epoch=1, start_offset=start_offset)
        for index in indexes
    ]
    topic = initializing.InitializeStateData(topic_id=topic_id, partitions=items)
    return initializing.InitializeShareGroupStateRequest(group_id=group_id, topics=[topic])


def read(*indexes, leader_epoch=5, topic_id=TOPIC_ID, group_id="g"):
    items = [reading.PartitionData(partition=index, leader_epoch=leader_epoch) for index in indexes]
    topic = reading.ReadStateData(topic_id=topic_id, partitions=items)
    return reading.ReadShareGroupStateRequest(group_id=group_id, topics=[topic])


def summary(*indexes, topic_id=TOPIC_ID, group_id="g"):
    items = [summing.PartitionData(partition=index, leader_epoch=0) for index in indexes]
    topic = summing.ReadStateSummaryData(topic_id=topic_id, partitions=items)
    return summing.ReadShareGroupStateSummaryRequest(group_id=group_id, topics=[topic])


def change(index, *batches, leader_epoch=5, start_offset=100, count=0):
    """Returns an item of a Write; a batch is (first, last, state, count)."""
    return writing.PartitionData(
        partition=index,
        state_epoch=1,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=count,
        state_batches=[
            writing.StateBatch(
                first_offset=first, last_offset=last, delivery_state=state, delivery_count=number
            )
            for first, last, state, number in batches
        ],
    )


def write(*items, topic_id=TOPIC_ID, group_id="g"):
    topic = writing.WriteStateData(topic_id=topic_id, partitions=list(items))
    return writing.WriteShareGroupStateRequest(group_id=group_id, topics=[topic])


def delete(*indexes, topic_id=TOPIC_ID, group_id="g"):
    items = [deleting.PartitionData(partition=index) for index in indexes]
    topic = deleting.DeleteStateData(topic_id=topic_id, partitions=items)
    return deleting.DeleteShareGroupStateRequest(group_id=group_id, topics=[topic])


HANDLER_OF = {declaration_of(handler).request: handler for handler in HANDLERS}


async def ask(rig, request, version=None):
    """Returns the response of the handler, on the wire in its last version or in this one."""
    handler = HANDLER_OF[type(request)]
    version = declaration_of(handler).versions.high if version is None else version
    request = through_wire(request, version)
    return await answered(handler, request, rig, call(request, version))


def codes(response):
    return {
        (topic.topic_id, result.partition): E(result.error_code)
        for topic in response.results
        for result in topic.partitions
    }

"""ReadShareGroupState (84): the leader of a partition reads the states of share groups, and fences earlier leaders
(KIP-932).
"""

from __future__ import annotations

from trimaran.broker.handlers.context import ShareContext
from trimaran.broker.handlers.share_states import Answer, decided
from trimaran.broker.share_state.states import ShareState
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.errors import KafkaError, KeptError
from trimaran.wire.identity import NO_OFFSET, Offset, StateEpoch
from trimaran.wire.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

# The size of a topic in a response, without its partitions.
_TOPIC_BYTES = 24

_ANSWER = Answer(
    ReadShareGroupStateResponse,
    ReadStateResult,
    PartitionResult,
    {"state_epoch": StateEpoch(0), "start_offset": Offset(0), "state_batches": []},
)


@handles(
    ReadShareGroupStateRequest,
    versions="0",
    access=cluster(Operation.CLUSTER_ACTION),
    on_error=_ANSWER.fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def read_share_group_state(
    request: ReadShareGroupStateRequest, ctx: ShareContext, call: Call
) -> Handling[ReadShareGroupStateResponse]:
    outcomes = yield from decided(
        request, ctx, lambda key, item: ctx.shares.read(key, item.leader_epoch)
    )
    results = []
    for topic_id, each in outcomes.items():
        call.room().take(_TOPIC_BYTES)
        partitions = EncodedArray()
        for partition, outcome in each.items():
            partitions.append((yield from _encoded(partition, outcome, call)))
            yield None
        results.append(ReadStateResult(topic_id=topic_id, partitions=partitions))
    return ReadShareGroupStateResponse(results=results)


def _encoded(partition: int, outcome: ShareState | KeptError, call: Call) -> Handling[bytes]:
    """Encodes the result of a partition, batch by batch, or an error if the response has no room for it."""
    room = call.room()
    if isinstance(outcome, KeptError):
        return room.refusal(_ANSWER.refused(partition, outcome))
    summary, batches = outcome
    result = PartitionResult(
        partition=partition,
        state_epoch=summary.state_epoch,
        start_offset=NO_OFFSET if summary.start_offset is None else summary.start_offset,
        state_batches=[],
    )
    elements = (
        StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    )
    try:
        return (yield from room.encoding_with(result, "state_batches", elements))
    except KafkaError as error:
        return room.refusal(_ANSWER.refused(partition, KeptError.of(error)))

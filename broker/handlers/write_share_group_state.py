"""WriteShareGroupState (85): a partition leader stores changes of the states of share partitions (KIP-932).

Versions: 1 the number of complete deliveries (KIP-1226), which is unknown in version 0.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice

from trimaran.broker.handlers.context import ShareContext
from trimaran.broker.handlers.share_states import NO_COUNT, Answer, decided, known, no_fields
from trimaran.broker.share_state.combining import BATCHES_PER_STEP
from trimaran.broker.share_state.states import DeliveryState, ShareSummary, StateBatch
from trimaran.node.replicated.pending import PendingResponse
from trimaran.node.runtime.steps import Steps
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages import write_share_group_state as wire
from trimaran.wire.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

_ANSWER = Answer(WriteShareGroupStateResponse, WriteStateResult, PartitionResult)
_STATES = {int(state): state for state in DeliveryState}


@handles(
    WriteShareGroupStateRequest,
    versions="0-1",
    access=cluster(Operation.CLUSTER_ACTION),
    on_error=_ANSWER.fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def write_share_group_state(
    request: WriteShareGroupStateRequest, ctx: ShareContext, call: Call
) -> Handling[WriteShareGroupStateResponse]:
    began = time.monotonic()
    outcomes = yield from decided(request, ctx, lambda key, item: _written(key, item, ctx))
    ctx.shares.write_times.observe(time.monotonic() - began)
    response: WriteShareGroupStateResponse = yield from _ANSWER.responding(
        outcomes, no_fields, call
    )
    return response


def _written(
    key: SharePartitionKey, item: PartitionData, ctx: ShareContext
) -> Steps[PendingResponse[None]]:
    count = item.delivery_complete_count
    summary = ShareSummary(
        item.state_epoch,
        item.leader_epoch,
        known(item.start_offset),
        None if count == NO_COUNT else count,
    )
    batches = yield from _batches(item.state_batches)
    return (yield from ctx.shares.write(key, summary, batches))


def _batches(batches: Iterable[wire.StateBatch]) -> Steps[list[StateBatch]]:
    """Returns the batches of a request. Raises KafkaError: INVALID_REQUEST for an unknown state."""
    found: list[StateBatch] = []
    left = iter(batches)
    try:
        while piece := list(islice(left, BATCHES_PER_STEP)):
            found += [
                StateBatch(
                    batch.first_offset,
                    batch.last_offset,
                    _STATES[batch.delivery_state],
                    batch.delivery_count,
                )
                for batch in piece
            ]
            if len(piece) == BATCHES_PER_STEP:
                yield len(piece)
        return found
    except KeyError as error:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"a batch has the unknown state {error}"
        ) from None

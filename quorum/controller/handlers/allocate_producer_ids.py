"""AllocateProducerIds (67): gives a broker the next block of producer ids; each id is assigned once in the life of the
cluster. Source: Kafka's `ProducerIdControlManager`, KIP-730.
"""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.controller.context import ControllerContext
from trimaran.quorum.controller.partitions.broker_changes import check_broker_epoch
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import ProducerId
from trimaran.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from trimaran.wire.records.producer_ids import ProducerIdsRecord
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling

BLOCK_SIZE = 1000
PRODUCER_ID_MAX = (1 << 63) - 1


@handles(AllocateProducerIdsRequest, versions="0", access=cluster(Operation.CLUSTER_ACTION))
def allocate_producer_ids(
    request: AllocateProducerIdsRequest, ctx: ControllerContext, _call: Call
) -> Handling[AllocateProducerIdsResponse]:
    return ctx.controller.submit(lambda active: next_block(request, active.image))


def next_block(
    request: AllocateProducerIdsRequest, image: MetadataImage
) -> Result[Message, AllocateProducerIdsResponse]:
    """Allocates the next block for a broker.

    Raises:
        KafkaError: STALE_BROKER_EPOCH; UNKNOWN_SERVER_ERROR if no ids are left.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    start = max(image.producer_ids.next_producer_id, ProducerId(0))
    if start > PRODUCER_ID_MAX - BLOCK_SIZE:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been given out")
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=ProducerId(start + BLOCK_SIZE),
    )
    response = AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=BLOCK_SIZE)
    return Result([record], response)

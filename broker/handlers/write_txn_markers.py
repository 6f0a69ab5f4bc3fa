"""WriteTxnMarkers (27): a transaction coordinator ends transactions in partitions that this broker leads (KIP-98,
KIP-890, KIP-1228).

Answered when the whole ISR has every marker. `trimaran.broker.transactions.marking` does the work. Source:
`KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

from trimaran.broker.handlers.context import TransactionContext
from trimaran.broker.transactions.marking import Marking, the_same_for_all
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from trimaran.wire.security.acls import Operation
from trimaran.wire.transport.requests.access import cluster
from trimaran.wire.transport.requests.calls import Call
from trimaran.wire.transport.requests.elements import PARTITIONS_ELEMENTS_MAX
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Handling


def _fail(
    request: WriteTxnMarkersRequest, code: ErrorCode, _message: str
) -> WriteTxnMarkersResponse:
    return the_same_for_all(request, code)


@handles(
    WriteTxnMarkersRequest,
    versions="0-2",
    access=cluster(Operation.ALTER, Operation.CLUSTER_ACTION),
    on_error=_fail,
    elements_max=PARTITIONS_ELEMENTS_MAX,
)
def write_txn_markers(
    request: WriteTxnMarkersRequest, ctx: TransactionContext, _call: Call
) -> Handling[WriteTxnMarkersResponse]:
    marking = Marking(ctx.partitions, ctx.groups.complete_transaction, ctx.now_ms)
    return (yield from marking.writing(request))

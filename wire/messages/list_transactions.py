"""ListTransactions (66): lists transactions that match a filter (KIP-664).

Versions: 1 a filter by age (KIP-994); 2 a pattern for ids (KIP-1152).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    field,
    int16,
    int32,
    int64,
    int64_producer_id,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=66, versions="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    state_filters: list[string]
    producer_id_filters: list[int64_producer_id]
    duration_filter: int64 = field("1+", default=-1)
    transactional_id_pattern: string | None = field("2+", default=None)


class TransactionState(Struct):
    transactional_id: string
    producer_id: int64_producer_id
    transaction_state: string


@response(key=66, versions="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    unknown_state_filters: list[string]
    transaction_states: list[TransactionState]

"""DescribeClientQuotas (48): lists quotas of clients that match a filter (KIP-546).

Versions: 1 flexible.
"""

from trimaran.wire.codec.declarations import Struct, boolean, float64, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class ComponentData(Struct):
    entity_type: string
    match_type: int8
    match: string | None


@request(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Message):
    components: list[ComponentData]
    strict: boolean


class EntityData(Struct):
    entity_type: string
    entity_name: string | None


class ValueData(Struct):
    key: string
    value: float64


class EntryData(Struct):
    entity: list[EntityData]
    values: list[ValueData]


@response(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    entries: list[EntryData] | None

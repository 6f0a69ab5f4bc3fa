"""AlterClientQuotas (49): sets and removes quotas of clients (KIP-546).

Versions: 1 flexible.
"""

from trimaran.wire.codec.declarations import Struct, boolean, float64, int16, int32, string
from trimaran.wire.schema import Message, request, response


class EntityData(Struct):
    entity_type: string
    entity_name: string | None


class OpData(Struct):
    key: string
    value: float64
    remove: boolean


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData]
    ops: list[OpData]


@request(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest(Message):
    entries: list[AlterClientQuotasRequestEntryData]
    validate_only: boolean


class AlterClientQuotasResponseEntryData(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    entity: list[EntityData]


@response(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse(Message):
    throttle_time_ms: int32 = 0
    entries: list[AlterClientQuotasResponseEntryData]

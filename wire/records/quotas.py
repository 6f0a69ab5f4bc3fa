"""Metadata record of a client quota (KIP-546, KIP-631)."""

from trimaran.wire.codec.declarations import Struct, boolean, float64, string
from trimaran.wire.schema import Message, record


class EntityData(Struct):
    entity_type: string
    entity_name: string | None


@record(key=14, versions="0", flexible="0+")
class ClientQuotaRecord(Message):
    entity: list[EntityData]
    key: string
    value: float64
    remove: boolean

"""Metadata record of one config of a topic, broker, group or client-metrics resource (KIP-631)."""

from trimaran.wire.codec.declarations import int8, string
from trimaran.wire.schema import Message, record


@record(key=4, versions="0", flexible="0+")
class ConfigRecord(Message):
    resource_type: int8
    resource_name: string
    name: string
    value: string | None

"""Metadata record of a feature's level, including `metadata.version` (KIP-584, KIP-778)."""

from trimaran.wire.codec.declarations import int16, string
from trimaran.wire.schema import Message, record


@record(key=12, versions="0", flexible="0+")
class FeatureLevelRecord(Message):
    name: string
    feature_level: int16

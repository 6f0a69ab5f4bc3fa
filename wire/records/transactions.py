"""Metadata records that make several batches one atomic change (KIP-868)."""

from trimaran.wire.codec.declarations import field, string
from trimaran.wire.schema import Message, record


@record(key=23, versions="0", flexible="0+")
class BeginTransactionRecord(Message):
    name: string | None = field(default=None, tag=0)


@record(key=24, versions="0", flexible="0+")
class EndTransactionRecord(Message):
    pass


@record(key=25, versions="0", flexible="0+")
class AbortTransactionRecord(Message):
    reason: string | None = field(default=None, tag=0)

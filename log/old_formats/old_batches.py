"""Messages of v0 and v1 in logs, as batches: the content of wrappers, and equivalent batches of v2.

Readers, timestamp look-ups and compaction only handle batches of v2, which `as_v2` returns for every format. Compaction
also writes them, so a compacted segment has format v2, as in Kafka.

Source: Kafka's `AbstractLegacyRecordBatch`, `MemoryRecords.buildRetainedRecordsInto`; KIP-724. A message of v0, which
has no timestamp, gets -1.
"""

from __future__ import annotations

from trimaran.log.batches.batch import ATTRIBUTES_COMPRESSION, MAGIC, BatchView, TimestampType
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import (
    LegacyRecord,
    decode_message_set,
    inner_messages,
    iter_messages,
)
from trimaran.wire.errors import RemoteProtocolError

NO_TIMESTAMP_TYPE = -1


def opened(view: BatchView) -> BatchView:
    """Returns the whole batch `view` with its base offset and count, which a wrapper's header lacks; reads the first
    and last inner message.

    A damaged wrapper is returned unchanged: reading its records reports the damage.
    """
    if view.magic >= MAGIC or not view.attributes & ATTRIBUTES_COMPRESSION:
        return view
    try:
        [wrapper] = iter_messages(view.buffer)
        first: LegacyRecord | None = None
        count = 0
        for message in inner_messages(wrapper):
            first = first or message
            count += 1
    except RemoteProtocolError:
        return view
    assert first is not None  # an empty wrapper is an error
    if not 0 <= first.offset <= view.base_offset:
        return view
    view.last_offset_delta = view.base_offset - first.offset
    view.base_offset = first.offset
    view.base_timestamp = first.timestamp_ms
    view.count = count
    return view


def as_v2(view: BatchView, *, keep_codec: bool = False) -> BatchView:
    """Returns the whole batch `view`, converted to v2 if necessary; offsets and timestamps are preserved, and with
    `keep_codec` also the compression.

    Raises:
        RemoteProtocolError: the content of an old message is damaged.
    """
    if view.magic >= MAGIC:
        return view
    records = decode_message_set(view.buffer)
    if not records:
        raise RemoteProtocolError(f"no message in {view!r}")
    codec = Compression(view.attributes & ATTRIBUTES_COMPRESSION)
    append_time = view.timestamp_type is TimestampType.LOG_APPEND_TIME
    data = build_batch(
        (NewRecord(record.key, record.value, record.timestamp_ms) for record in records),
        base_offset=records[0].offset,
        compression=codec if keep_codec else Compression.NONE,
        timestamp_type=TimestampType(append_time),
        offset_deltas=[record.offset - records[0].offset for record in records],
    )
    return BatchView(memoryview(data))


def timestamp_type_id(view: BatchView) -> int:
    """Returns the number of the timestamp type in Kafka's clients: 0 create time, 1 log append time, -1 none (v0)."""
    return int(view.timestamp_type) if view.magic else NO_TIMESTAMP_TYPE

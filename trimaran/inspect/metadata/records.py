"""Records of the metadata log as rows, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import Record, decode_records
from trimaran.wire.messages.control import ControlType, decode_control_key
from trimaran.wire.records.metadata import UnknownRecord, read_metadata_record
from trimaran.wire.text.as_json import as_json


def record_rows(batch: BatchView) -> Iterator[dict[str, Any]]:
    """Returns the rows of a batch. Raises RemoteProtocolError for a malformed record."""
    for record in decode_records(batch):
        yield record_row(batch, record)


def typed(record: Record) -> tuple[str, dict[str, Any]]:
    """Returns name and content of a metadata record; for a record of a later Kafka its numbers. Raises as `record_rows`
    does.
    """
    message = read_metadata_record(record.value or b"", record.offset)
    if isinstance(message, UnknownRecord):
        return message.name, {"type": message.type, "version": message.version}
    return type(message).__name__, as_json(message)


def record_row(batch: BatchView, record: Record) -> dict[str, Any]:
    """Returns the row of a record of the batch. Raises as `record_rows` does."""
    if batch.is_control:
        key = decode_control_key(record.key or b"")
        name = ControlType(key).name if key in set(ControlType) else str(key)
        payload: dict[str, Any] = {}
    else:
        name, payload = typed(record)
    return {
        "offset": record.offset,
        "epoch": batch.leader_epoch,
        "timestamp_ms": record.timestamp_ms,
        "type": name,
        "payload": payload,
    }

"""Records of the metadata log and of snapshots, decoded on demand, so that other tasks get turns while a large batch is
applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.columns import decode_columns
from trimaran.wire.identity import Offset
from trimaran.wire.records.metadata import UnknownRecord, read_metadata_record, unknown_record
from trimaran.wire.schema import Message

T = TypeVar("T")


def metadata_records(batch: BatchView) -> Iterator[Message | UnknownRecord]:
    """Yields the records of a batch, each decoded on demand; none for a control batch. A record of a later Kafka
    version is an `UnknownRecord`.

    Raises:
        RemoteProtocolError: a record is malformed.
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    for offset, value in enumerate(metadata_values(batch), batch.base_offset):
        yield read_metadata_record(value, Offset(offset))


def unknown_records(batch: BatchView) -> Iterator[UnknownRecord]:
    """Yields the records of a later Kafka version; only the frames of all others are read. Raises the same errors as
    `metadata_records`.
    """
    for offset, value in enumerate(metadata_values(batch), batch.base_offset):
        found = unknown_record(value, Offset(offset))
        if found is not None:
            yield found


def metadata_values(batch: BatchView) -> Iterator[bytes]:
    """Yields the encoded records of a batch; none for a control batch. Raises the same errors as `metadata_records`."""
    if batch.is_control:
        return
    columns = decode_columns([batch])
    data = bytes(columns.data)
    for start, size in zip(columns.value_start, columns.value_size, strict=True):
        yield data[start : start + max(size, 0)]


def in_pieces(records: Iterable[T], records_max: int) -> Iterator[tuple[list[T], bool]]:
    """Yields the records in lists of at most `records_max`, each with a flag for the last list; yields one empty list
    if there are no records.
    """
    left = iter(records)
    piece = list(islice(left, records_max))
    for first in left:
        yield piece, False
        piece = [first, *islice(left, records_max - 1)]
    yield piece, True

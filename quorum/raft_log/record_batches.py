"""Records of the metadata log and of snapshots, decoded little by little: who applies a large batch lets others have
their turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from log.batches.batch import BatchView
from log.batches.columns import decode_columns
from wire.records.metadata import decode_metadata_record
from wire.schema import Message

T = TypeVar("T")


def metadata_records(batch: BatchView) -> Iterator[Message]:
    """The records of a batch, each decoded when it is asked for; of a control batch none.

    Raises:
        RemoteProtocolError: malformed, or of a later Kafka.
        KafkaError: UNSUPPORTED_COMPRESSION_TYPE.
    """
    if batch.is_control:
        return
    columns = decode_columns([batch])
    data = bytes(columns.data)
    for start, size in zip(columns.value_start, columns.value_size, strict=True):
        yield decode_metadata_record(data[start : start + max(size, 0)])


def in_pieces(records: Iterable[T], records_max: int) -> Iterator[tuple[list[T], bool]]:
    """The records in lists of at most so many, each with whether it is the last; one empty list if there are none."""
    left = iter(records)
    piece = list(islice(left, records_max))
    for first in left:
        yield piece, False
        piece = [first, *islice(left, records_max - 1)]
    yield piece, True

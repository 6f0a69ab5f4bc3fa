"""Memoised states of partitions: equal changes of equal states are applied once.

Most of a metadata log is PartitionChangeRecords that make the same few changes to partitions in the same state. Such a
record names its partition in its first bytes; the other bytes are equal for equal changes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from trimaran.quorum.metadata.image import PartitionImage
from trimaran.quorum.metadata.topics_delta import merge_change
from trimaran.spark.kafka_metadata.log_walk.decoding import FRAME_BYTES
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.metadata import metadata_decoder
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord

REMEMBERED_MAX = 1 << 16  # the number of cached states and changes: about 50 MB
NUMBER_BYTES = 4
PLACE_END = FRAME_BYTES + NUMBER_BYTES + 16
NO_PLACE = bytes(PLACE_END - FRAME_BYTES)
NO_EPOCHS = (0, 0)  # the last fields of an image

Place = bytes  # the index of a partition and the id of its topic, as in records


class PartitionState:
    """The state of a partition after a change: its image without epochs, and whether the change elected its leader.

    Equal states are one object while they are cached, so they are compared by identity: comparing images would cost
    more than all other work for a change.
    """

    __slots__ = ("image", "is_elected")

    def __init__(self, image: PartitionImage, is_elected: bool) -> None:
        self.image = image
        self.is_elected = is_elected


def created(image: PartitionImage) -> PartitionState:
    """Returns the state of a new partition."""
    return _standing(image[: -len(NO_EPOCHS)], False)


@lru_cache(REMEMBERED_MAX)
def _standing(fields: tuple[Any, ...], is_elected: bool) -> PartitionState:
    """Returns one object for all images that are equal except for their epochs."""
    return PartitionState(PartitionImage._make(fields + NO_EPOCHS), is_elected)


def apart(value: bytes) -> tuple[Place, bytes]:
    """Splits the value of a PartitionChangeRecord into the id of its partition and the rest, with the frame."""
    return value[FRAME_BYTES:PLACE_END], value[:FRAME_BYTES] + value[PLACE_END:]


def place_of(record: PartitionChangeRecord | PartitionRecord) -> Place:
    number: int = record.partition_id
    return number.to_bytes(NUMBER_BYTES, "big", signed=True) + record.topic_id


@lru_cache(REMEMBERED_MAX)
def changed(before: PartitionState, says: bytes) -> PartitionState | None:
    """Returns the state after a change; None for a malformed change.

    Raises:
        RemoteProtocolError: the change cannot belong to this partition.
    """
    _, key, version = says[:FRAME_BYTES]
    try:
        record = metadata_decoder(key, version)(NO_PLACE + says[FRAME_BYTES:])
    except RemoteProtocolError:
        return None
    assert isinstance(record, PartitionChangeRecord)
    return merged(before, record)


def merged(before: PartitionState, record: PartitionChangeRecord) -> PartitionState:
    """Returns the state after a decoded change."""
    after = merge_change(before.image, record)
    return _standing(after[: -len(NO_EPOCHS)], after.leader_epoch > 0)

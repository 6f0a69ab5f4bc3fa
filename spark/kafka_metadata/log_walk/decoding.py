"""Decodes the values of many log records to metadata records of the requested types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.records.metadata import (
    FRAME_VERSION,
    UnknownRecord,
    metadata_decoder,
    read_metadata_record,
    unknown_record,
)

# the length of the frame of all existing record types: each of its three numbers takes one byte
FRAME_BYTES = 3
Decode = Callable[[bytes], Any]
NOT_UNDERSTOOD = UnknownRecord(-1, -1)  # a record without a type


def decode_messages(
    data: bytes,
    starts: Iterable[int],
    sizes: Iterable[int],
    keys: frozenset[int] | None = None,
    raw: frozenset[int] = frozenset(),
    *,
    tells_unknown: bool = False,
) -> list[Any]:
    """Decodes the records whose values are in `data`, in order, as `read_metadata_record` does for a single one.

    The result is None for a record whose type is not in `keys` (None: all types are requested), which costs reading
    three bytes. A record of a type in `raw` results in the bytes of its value, malformed or not, unless its frame is
    longer than any known one. A record of a later Kafka, and a malformed one, which must not end an analysis, are None
    too, unless `tells_unknown` is set: then each is an `UnknownRecord`, those of a later Kafka whatever their types.
    """
    decoders: dict[bytes, Decode] = {}  # by frame; there are few
    messages: list[Any] = []
    for start, size in zip(starts, sizes, strict=True):
        body = start + FRAME_BYTES
        frame = data[start:body]
        decode = decoders.get(frame)
        if decode is None:
            decode = decoders[frame] = _decoder_behind(frame, keys, raw, tells_unknown)
        if decode is _unwanted or size < FRAME_BYTES:
            is_short = size < FRAME_BYTES and tells_unknown
            messages.append(NOT_UNDERSTOOD if is_short else None)
            continue
        if decode is _raw:
            messages.append(data[start : start + size])
            continue
        try:
            messages.append(decode(data[body : start + size]))
        except RemoteProtocolError:
            messages.append(malformed(frame) if tells_unknown else None)
    return messages


def malformed(frame: bytes) -> UnknownRecord:
    """Returns a record that is not understood: of another frame version, or with a malformed body."""
    return UnknownRecord(frame[1], frame[2]) if frame[0] == FRAME_VERSION else NOT_UNDERSTOOD


def _decoder_behind(
    frame: bytes, keys: frozenset[int] | None, raw: frozenset[int], tells_unknown: bool
) -> Decode:
    if len(frame) == FRAME_BYTES and frame[0] == FRAME_VERSION and max(frame) < 0x80:
        unknown = unknown_record(frame)
        if unknown is not None:
            return (lambda _: unknown) if tells_unknown else _unwanted
        if keys is not None and frame[1] not in keys:
            return _unwanted
        return _raw if frame[1] in raw else metadata_decoder(frame[1], frame[2])

    def decode(body: bytes) -> Any:
        message = read_metadata_record(frame + body)
        if isinstance(message, UnknownRecord):
            return message if tells_unknown else None
        return message if keys is None or message.KEY in keys else None

    return decode


def _unwanted(_: bytes) -> None:
    """Skips a record of a type that is not read."""


def _raw(_: bytes) -> None:
    """Marks a type of records that is returned as bytes."""

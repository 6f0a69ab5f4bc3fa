"""The values of many log records made into metadata records, of those types that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from wire.errors import RemoteProtocolError
from wire.records.metadata import FRAME_VERSION, decode_metadata_record, metadata_decoder

FRAME_BYTES = 3  # of every record that exists so far: each of its three numbers is one byte
Decode = Callable[[bytes], Any]


def decode_messages(
    data: bytes,
    starts: Iterable[int],
    sizes: Iterable[int],
    keys: frozenset[int] | None = None,
    raw: frozenset[int] = frozenset(),
) -> list[Any]:
    """The records whose values lie in `data`, in order, as `decode_metadata_record` gives them one by one.

    None for those of a type that is not in `keys` (None: all are wanted), which cost a look at three bytes; and for
    those of a later Kafka, and malformed ones: they are no end of an analysis. Those of a type in `raw` are given as
    the bytes of their values, malformed or not; those whose frame is longer than any that exists are decoded.
    """
    decoders: dict[bytes, Decode] = {}  # by frame: a few
    messages: list[Any] = []
    for start, size in zip(starts, sizes, strict=True):
        body = start + FRAME_BYTES
        frame = data[start:body]
        decode = decoders.get(frame)
        if decode is None:
            decode = decoders[frame] = _decoder_behind(frame, keys, raw)
        if decode is _unwanted or size < FRAME_BYTES:
            messages.append(None)
            continue
        if decode is _raw:
            messages.append(data[start : start + size])
            continue
        try:
            messages.append(decode(data[body : start + size]))
        except RemoteProtocolError:
            messages.append(None)
    return messages


def _decoder_behind(frame: bytes, keys: frozenset[int] | None, raw: frozenset[int]) -> Decode:
    if len(frame) == FRAME_BYTES and frame[0] == FRAME_VERSION and max(frame) < 0x80:
        if keys is not None and frame[1] not in keys:
            return _unwanted
        try:
            decoder = metadata_decoder(frame[1], frame[2])
            return _raw if frame[1] in raw else decoder
        except RemoteProtocolError:
            return _unwanted

    def decode(body: bytes) -> Any:
        message = decode_metadata_record(frame + body)
        return message if keys is None or message.KEY in keys else None

    return decode


def _unwanted(_: bytes) -> None:
    """Of a type that nobody asked for, or that nobody knows."""


def _raw(_: bytes) -> None:
    """Of a type that is asked for as bytes."""

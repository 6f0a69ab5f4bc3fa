"""The fuzzed functions of bytes, which answer or refuse according to their contract. Any other exception is a
finding."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache

import crc32c

from tests.fuzz import logins
from tests.wire import twins
from tests.wire.declared import MESSAGES
from trimaran.log.batches.batch import CRC_POSITION, CRC_START, HEADER_BYTES, iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.log.config import LogConfig
from trimaran.log.old_formats.down_conversion import down_convert
from trimaran.log.old_formats.message_sets import decode_message_set
from trimaran.log.old_formats.up_conversion import convert_produced
from trimaran.log.validation.validate import ProduceRules, validate_produced
from trimaran.wire.buffers.framing import FrameBuffer
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.messages.header import decode_request_header, decode_response_header
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.records.metadata import decode_metadata_record
from trimaran.wire.schema import Message

FRAME_BYTES_MAX = 1 << 16
DECOMPRESSED_BYTES_MAX = 1 << 20
NOW_MS = 1_700_000_000_000
RULES = ProduceRules.of(LogConfig())
RECORDS = sorted(
    set(MESSAGES) - set(REQUESTS.values()) - set(RESPONSES.values()), key=lambda cls: cls.__name__
)


def fuzz_frame(data: bytes) -> None:
    """Checks that a stream in pieces (the first byte is their size) is cut into the same frames as the whole stream."""
    if not data:
        return
    size, stream = data[0] + 1, data[1:]
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert frames_of(pieces) == frames_of([stream])


def frames_of(pieces: list[bytes]) -> list[bytes | str]:
    buffer = FrameBuffer(FRAME_BYTES_MAX)
    found: list[bytes | str] = []
    try:
        for piece in pieces:
            while piece:
                room = buffer.room()
                count = min(len(room), len(piece))
                room[:count] = piece[:count]
                del room
                buffer.received(count)
                piece = piece[count:]
                while (frame := buffer.next_frame()) is not None:
                    found.append(bytes(frame))
    except RemoteProtocolError as error:
        found.append(str(error))
    return found


def fuzz_header(data: bytes) -> None:
    """Decodes request headers of any key, and response headers to any request."""
    refusing(decode_request_header, data)
    if len(data) > 2 and data[0] in RESPONSES:
        refusing(decode_response_header, data[2:], data[0], data[1])


def fuzz_request(data: bytes) -> None:
    """Decodes a key, a version, and a body of that request."""
    fuzz_body(REQUESTS, data)


def fuzz_response(data: bytes) -> None:
    """Decodes a key, a version, and a body of that response."""
    fuzz_body(RESPONSES, data)


def fuzz_body(messages: dict[int, type[Message]], data: bytes) -> None:
    if len(data) >= 2 and (cls := messages.get(data[0])) is not None:
        check(cls, data[1], data[2:])


def fuzz_record(data: bytes) -> None:
    """Decodes the number of a class, its version, and the value of such a record; or a metadata record with its
    frame.
    """
    if len(data) >= 2:
        check(RECORDS[data[0] % len(RECORDS)], data[1], data[2:])
        refusing(decode_metadata_record, data[2:])


def check(cls: type[Message], version: int, body: bytes) -> None:
    """Checks that a decoded message is encoded again, and decoded to the same message."""
    message = refusing(cls.decode, body, version)
    if message is not None:
        encoded = message.encode(version)
        assert cls.decode(memoryview(encoded), version).encode(version) == encoded
    if twins.COMPILED and version in cls.VERSIONS:
        one, other = (twins.outcome(read, body) for read in twin_readers(cls, version))
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert one[1] == other[1]
            assert one[0].encode(version) == other[0].encode(version)


@cache
def twin_readers(cls: type[Message], version: int):
    return twins.readers(cls, version)


def fuzz_batch(data: bytes) -> None:
    """Reads batches as followers and consumers do, then validates one like a producer's, with a corrected CRC."""
    for magic in (0, 1):
        refusing(down_convert, data, magic, 0)
    for batch in refusing(lambda: list(iter_batches(data, allow_partial_tail=True))) or ():
        refusing(decode_records, batch, DECOMPRESSED_BYTES_MAX)
    if len(data) >= HEADER_BYTES:
        produced = bytearray(data)
        struct.pack_into(">I", produced, CRC_POSITION, crc32c.crc32c(produced[CRC_START:]))
        taken = refusing(validate_produced, memoryview(produced), RULES, now_ms=NOW_MS)
        for batch in taken or ():
            assert len(decode_records(batch)) == batch.count


def fuzz_message_set(data: bytes) -> None:
    """Reads sets of formats v0 and v1 with corrected CRCs; the decoder must also read every set that a producer may
    send.
    """
    right = bytearray(data)
    at = 0
    while at + 16 < len(right):
        size = int.from_bytes(right[at + 8 : at + 12], "big", signed=True)
        if not 4 < size <= len(right) - at - 12:
            break
        body = memoryview(right)[at + 16 : at + 12 + size]
        struct.pack_into(">I", right, at + 12, zlib.crc32(body))
        body.release()
        at += 12 + size
    refusing(decode_message_set, bytes(right), DECOMPRESSED_BYTES_MAX)
    batch = refusing(convert_produced, memoryview(bytes(right)), RULES, now_ms=NOW_MS)
    if batch:
        assert decode_records(next(iter_batches(batch)))


def refusing(function: Callable[..., object], *arguments: object, **named: object):
    """Returns the result, or None if the bytes are refused according to the contract."""
    try:
        return function(*arguments, **named)
    except (RemoteProtocolError, KafkaError):
        return None


TARGETS: dict[str, Callable[[bytes], None]] = {
    "frame": fuzz_frame,
    "header": fuzz_header,
    "request": fuzz_request,
    "response": fuzz_response,
    "record": fuzz_record,
    "batch": fuzz_batch,
    "message-set": fuzz_message_set,
    "login": logins.fuzz_login,
    "plain": logins.fuzz_plain,
    "scram": logins.fuzz_scram,
    "oauthbearer": logins.fuzz_oauthbearer,
    "stores": logins.fuzz_stores,
}

"""The corpus: a file for each target, with one input in base64 per line, shortest first.

`seeds` creates complete messages of every kind; all other inputs were found by fuzzing, and reach code that no other
input reaches.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType

from tests.fuzz.targets import RECORDS, TARGETS
from tests.node.oauth.provider import unsigned
from tests.wire.random_messages import random_message
from trimaran.log.batches.records import NewRecord, Record, RecordHeader, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.header import encode_request
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest
from trimaran.wire.schema import Message

FOLDER = Path(__file__).parent / "corpus"
ROOT = Path(__file__).parent.parent.parent
# Limit of one target's file: all of them together stay below 200 KB.
FILE_BYTES_MAX = 28_000
SEED_BYTES_MAX = 400


def path_of(target: str) -> Path:
    return FOLDER / f"{target}.txt"


def load(target: str) -> list[bytes]:
    return [base64.b64decode(line) for line in path_of(target).read_text().splitlines()]


def store(target: str, inputs: Iterable[bytes]) -> None:
    """Writes the inputs that together reach all code that any of them reaches, shortest first, up to the size limit of
    the file.
    """
    lines, room = [], FILE_BYTES_MAX
    for data in needed(TARGETS[target], inputs):
        line = base64.b64encode(data).decode() + "\n"
        room -= len(line)
        if room < 0:
            break
        lines.append(line)
    path_of(target).write_text("".join(lines))


def needed(target: Callable[[bytes], None], inputs: Iterable[bytes]) -> Iterator[bytes]:
    """Returns the inputs, in order of size, that take a new step from line to line."""
    seen: set[Step] = set()
    for data in sorted(set(inputs), key=lambda data: (len(data), data)):
        steps = steps_of(target, data)
        if not steps <= seen:
            seen |= steps
            yield data


Step = tuple[CodeType, int, int]


def steps_of(target: Callable[[bytes], None], data: bytes) -> set[Step]:
    """Returns the pairs of consecutively executed lines in our code and in generated code."""
    steps: set[Step] = set()

    def trace(frame: FrameType, event: str, argument: object):
        code, before = frame.f_code, 0

        def trace_lines(frame: FrameType, event: str, argument: object):
            nonlocal before
            if event == "line":
                steps.add((code, before, frame.f_lineno))
                before = frame.f_lineno
            return trace_lines

        return trace_lines if is_ours(code.co_filename) else None

    target(data)  # the first run generates codecs
    sys.settrace(trace)
    try:
        target(data)
    finally:
        sys.settrace(None)
    return steps


def is_ours(filename: str) -> bool:
    return filename.startswith(
        ("<read", "<write", f"{ROOT}/trimaran/wire/", f"{ROOT}/trimaran/log/")
    )


def seeds(target: str) -> list[bytes]:
    """Returns complete initial inputs, if they are small."""
    made = SEEDS[target]()
    return [data for data in made if len(data) <= SEED_BYTES_MAX]


def _frames() -> list[bytes]:
    request = encode_request(ApiVersionsRequest(), 0, 1, "me")
    whole = len(request).to_bytes(4, "big") + bytes(request)
    return [
        b"\x05" + whole * 3,
        b"\xff" + whole,
        b"\x00\xff\xff\xff\xff",
        b"\x03GET / HTTP/1.1\r\n",
    ]


def _headers() -> list[bytes]:
    found = [
        bytes(encode_request(ApiVersionsRequest(), v, 1, c)) for v in (0, 3) for c in ("é", None)
    ]
    return [*found, b"\x12\x03\0\0\0\1", b"\x03\x0c\0\0\0\1\2\1\1x\2\0"]


def _bodies(messages: dict[int, type[Message]]) -> list[bytes]:
    """Yields the oldest and the newest version of each message, nearly empty and full."""
    return [
        bytes([key, version]) + random_message(cls, version, seed).encode(version)
        for key, cls in messages.items()
        for version in {cls.VERSIONS.low, cls.VERSIONS.high}
        for seed in (1, 2)
    ]


def _records() -> list[bytes]:
    return [
        bytes([number, cls.VERSIONS.high])
        + random_message(cls, cls.VERSIONS.high, seed).encode(cls.VERSIONS.high)
        for number, cls in enumerate(RECORDS)
        for seed in (1, 2)
    ]


def _batches() -> list[bytes]:
    headers = (RecordHeader("h", b"v"), RecordHeader("n", None))
    records = [
        NewRecord(None, b"value", 1_700_000_000_000),
        NewRecord(b"k", None, 1_700_000_000_001, headers),
    ]
    return [build_batch(records, compression=compression) for compression in Compression]


def _message_sets() -> list[bytes]:
    records = [Record(n, -1, None, b"value", ()) for n in range(2)]
    stamped = [Record(n, 1_700_000_000_000 + n, b"k", b"value", ()) for n in range(2)]
    kinds = [kind for kind in Compression if kind is not Compression.ZSTD]
    return [
        build_message_set(given, magic=magic, compression=kind)
        for magic, given in ((0, records), (1, stamped))
        for kind in kinds
    ]


def _logins() -> list[bytes]:
    def framed(*requests: tuple[Message, int]) -> bytes:
        frames = [bytes(encode_request(request, version, 1, "c")) for request, version in requests]
        return b"".join(bytes([len(frame)]) + frame for frame in frames)

    first = SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=client")
    plain = SaslAuthenticateRequest(auth_bytes=b"\0alice\0x")
    scram = SaslHandshakeRequest(mechanism="SCRAM-SHA-256")
    return [
        framed((ApiVersionsRequest(), 3), (scram, 1), (first, 2), (first, 1)),
        framed((SaslHandshakeRequest(mechanism="PLAIN"), 1), (plain, 0)),
        framed((scram, 0)) + b"\x13n,,n=alice,r=client",
        framed((SaslHandshakeRequest(mechanism="GSSAPI"), 1)),
    ]


def _logins_by_scram() -> list[bytes]:
    first, final = b"n,,n=alice,r=client", b"c=biws,r=clientserver,p=" + b"A" * 43 + b"="
    asked, proven = b"r=clientserver,s=c2FsdA==,i=4096", b"v=" + b"A" * 43 + b"="
    return [
        bytes([len(first)]) + first + final,
        bytes([41]) + b"n,a=alice,n=alice,r=client,tokenauth=true" + final,
        bytes([len(asked)]) + asked + proven,
        bytes([len(asked)]) + asked + b"e=other-error",
    ]


def _logins_by_bearer() -> list[bytes]:
    claims = {"sub": "alice", "exp": 1_700_000_900, "iat": 1_700_000_000}
    bearer = unsigned({"alg": "none"}, claims).encode()
    message = b"n,a=alice,\x01auth=Bearer " + bearer + b"\x01host=x\x01\x01"
    return [
        bytes([len(message)]) + message + b"\x01",
        bytes([len(bearer)]) + bearer + b'{"status":"invalid_token"}',
        b'{"keys":[{"kty":"RSA","kid":"r","n":"AQAB","e":"AQAB"},{"kty":"oct","k":"AA"}]}',
    ]


def _stores() -> list[bytes]:
    entry = b"\0\0\0\2\0\1a" + bytes(8) + b"\0\5X.509\0\0\0\2ab"
    key = b"\0\0\0\1\0\1a" + bytes(8) + b"\0\0\0\x36\x30\x34\x30\0\4\x30" + b"x" * 48
    head = b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1"
    module = b'org.apache.X required a="b\\"c" d=e;'
    return [head + entry + bytes(20), head + key + bytes(24), module]


SEEDS = {
    "frame": _frames,
    "header": _headers,
    "request": lambda: _bodies({key: REQUESTS[key] for key in REQUESTS}),
    "response": lambda: _bodies({key: RESPONSES[key] for key in RESPONSES}),
    "record": _records,
    "batch": _batches,
    "message-set": _message_sets,
    "login": _logins,
    "plain": lambda: [b"\0alice\0secret", b"bob\0alice\0secret"],
    "scram": _logins_by_scram,
    "oauthbearer": _logins_by_bearer,
    "stores": _stores,
}

"""For any bytes, every message is decoded or raises RemoteProtocolError (after h11's fuzz)."""

import random
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises, check_each
from tests.wire.declared import MESSAGES, examples_of_all, telling_versions_of
from tests.wire.random_messages import random_message
from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.header import decode_request_header, decode_response_header
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.records.metadata import decode_metadata_record

# Bytes with a meaning to a decoder: nulls, limits of sizes, varints that continue.
TELLING = (
    b"\x00",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80" * 11,
)


def mutate(encoded: bytes, rng: random.Random) -> bytes:
    mutated = bytearray(encoded)
    for _ in range(rng.randint(1, 3)):
        place = rng.randint(0, len(mutated))
        match rng.randrange(4):
            case 0:
                mutated[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                telling = rng.choice(TELLING)
                mutated[place : place + len(telling)] = telling
            case 2:
                del mutated[place : place + rng.randint(1, 8)]
            case 3:
                mutated[place:place] = rng.randbytes(rng.randint(1, 8))
    return bytes(mutated)


def check(cls, version, data: bytes) -> None:
    try:
        message = cls.decode(data, version)
    except RemoteProtocolError:
        return
    encoded = message.encode(version)
    assert cls.decode(encoded, version).encode(version) == encoded


@examples_of_all
@given(seed=st.integers(0, 2**32 - 1))
def test_mutated_message_is_decoded_or_refused(seed):
    def check_mutants(cls):
        rng = random.Random(seed)
        for version in telling_versions_of(cls):
            encoded = random_message(cls, version, seed).encode(version)
            for _ in range(4):
                check(cls, version, mutate(encoded, rng))

    check_each(MESSAGES, check_mutants)


@examples_of_all
@given(garbage=st.binary(max_size=64))
def test_random_bytes_are_decoded_or_refused(garbage):
    def check_garbage(cls):
        for version in telling_versions_of(cls):
            check(cls, version, garbage)

    check_each(MESSAGES, check_garbage)


@examples_of_all
@given(seed=st.integers(0, 2**32 - 1))
def test_truncated_or_extended_message_is_refused(seed):
    def is_refused(cls):
        for version in telling_versions_of(cls):
            encoded = random_message(cls, version, seed).encode(version)
            step = max(1, len(encoded) // 10)
            for size in range(0, len(encoded), step):
                with pytest.raises(RemoteProtocolError):
                    cls.decode(encoded[:size], version)
            with pytest.raises(RemoteProtocolError):
                cls.decode(encoded + b"\0", version)

    check_each(MESSAGES, is_refused)


@given(garbage=st.binary(max_size=64))
def test_random_headers_and_frames_are_refused(garbage):
    for decode in (decode_request_header, decode_metadata_record):
        assert_only_raises(RemoteProtocolError, partial(decode, garbage))
    for key, cls in RESPONSES.items():
        for version in cls.VERSIONS:
            decode = partial(decode_response_header, garbage, key, version)
            assert_only_raises(RemoteProtocolError, decode)

"""Java's hash code of a string, compiled and in plain Python, compared with its definition."""

from __future__ import annotations

import random
import struct

import pytest

from tests.log.interpreted import interpreted
from trimaran.wire import java_hash

HASHES = [java_hash, interpreted(java_hash)] if java_hash.COMPILED else [java_hash]


@pytest.fixture(params=HASHES, ids=lambda module: "compiled" if module.COMPILED else "interpreted")
def hash_of(request):
    return request.param.java_hash


def defined(text):
    """Returns s[0]*31^(n-1) + ... + s[n-1] over UTF-16 code units, in signed 32 bits."""
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be", "surrogatepass")):
        value = 31 * value + unit
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -(1 << 31)),
        ("é", 233),
        ("😀", 55357 * 31 + 56832),
        ("\ud800", 0xD800),
        ("\uffff", 0xFFFF),
        ("\U00010000", 0xD800 * 31 + 0xDC00),
    ],
)
def test_text_has_the_hash_code_of_java(hash_of, text, expected):
    assert hash_of(text) == expected


@pytest.mark.parametrize("widest", [0x7F, 0xFF, 0xFFFF, 0x10FFFF])
def test_hash_code_follows_definition_for_all_texts(hash_of, widest):
    chance = random.Random(widest)
    for length in (1, 2, 7, 31, 1_000, 3_000):
        text = "".join(chr(chance.randint(0, widest)) for _ in range(length))
        assert hash_of(text) == defined(text), repr(text)[:80]

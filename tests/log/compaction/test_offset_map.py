"""The map of a round's keys, compiled and interpreted, compared with a dictionary; its digests, with another
SipHash.
"""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.helpers import view_of
from tests.log.interpreted import interpreted
from trimaran.log.batches.columns import DATA_BYTES_MAX, decode_columns
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.compaction import offset_map

MAPS = [offset_map, interpreted(offset_map)] if offset_map.COMPILED else [offset_map]
both = pytest.mark.parametrize("module", MAPS, ids=lambda module: str(module.COMPILED))
KEY = bytes(range(16))
MASK = (1 << 64) - 1


def siphash(key, data):
    """Returns SipHash-2-4 with 128 bits of output, as its authors define it."""
    k0, k1 = struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE]
    v += [k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotated(number, count):
        return (number << count | number >> (64 - count)) & MASK

    def rounds(count):
        for _ in range(count):
            v[0] = (v[0] + v[1]) & MASK
            v[1] = rotated(v[1], 13) ^ v[0]
            v[0] = rotated(v[0], 32)
            v[2] = (v[2] + v[3]) & MASK
            v[3] = rotated(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & MASK
            v[3] = rotated(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & MASK
            v[1] = rotated(v[1], 17) ^ v[2]
            v[2] = rotated(v[2], 32)

    padded = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return struct.pack("<QQ", low, v[0] ^ v[1] ^ v[2] ^ v[3])


def test_twin_equals_reference_siphash():
    assert siphash(KEY, b"").hex() == "a3817f04ba25a8e66df67214c7550293"


@both
@given(st.binary(min_size=16, max_size=16), st.binary(max_size=40))
def test_digests_are_the_twins(module, key, data):
    assert module.OffsetMap(3, 2, key).digest(data) == siphash(key, data)


@both
@pytest.mark.parametrize("size", [*range(1, 18), 255, 256, 300])
def test_digests_are_the_twins_at_each_length(module, size):
    data = bytes(200 + number % 56 for number in range(size))
    assert module.OffsetMap(3, 2, KEY).digest(data) == siphash(KEY, data)


def columns_of(records, base_offset):
    built = [NewRecord(key, value, 1000) for key, value in records]
    view = view_of(bytearray(build_batch(built, base_offset=base_offset)))
    return decode_columns([view], DATA_BYTES_MAX)


KEYS = st.sampled_from([None, b"", b"a", b"b", b"long key of more than a word", b"\0", b"c"])
RECORDS = st.lists(st.tuples(KEYS, st.sampled_from([None, b"", b"v"])), min_size=1, max_size=9)


@both
@given(
    batches=st.lists(RECORDS, min_size=1, max_size=4),
    first_offset=st.integers(0, 12),
    entries=st.integers(1, 7),
    spare=st.integers(1, 3),
    fates=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    latest=st.integers(-1, 30),
)
def test_map_keeps_newest_offsets_and_marks_survivors(
    module, batches, first_offset, entries, spare, fates, latest
):
    offsets, newest, at = module.OffsetMap(entries + spare, entries, KEY), {}, 0
    placed = []
    for records in batches:
        placed.append((at, records))
        columns = columns_of(records, at)
        full = len(records)
        for row, (key, _) in enumerate(records):
            if key is None or at + row < first_offset:
                continue
            if key not in newest and len(newest) == entries:
                full = row
                break
            newest[key] = at + row
        assert offsets.put_all(columns, first_offset) == full
        assert len(offsets) == len(newest)
        at += len(records)
        if full < len(records):
            break
    for key in (b"", b"a", b"b", b"long key of more than a word", b"\0", b"c", b"none"):
        assert offsets.get(key) == newest.get(key, -1)
    for number, (base, records) in enumerate(placed):
        keep = bytearray(b"\7" * len(records))
        offsets.mark(columns_of(records, base), bytes(fates[number : number + 1]), latest, keep)
        assert list(keep) == [
            mark(newest, key, value, base + row, fates[number], latest)
            for row, (key, value) in enumerate(records)
        ]


def mark(newest, key, value, offset, fate, latest):
    """Returns how a key's record counts: 0 is removed, 1 is a value that stays, 2 a tombstone that stays."""
    stays = 2 if value is None else 1
    if fate == 2 or offset > latest:
        return stays
    if value is None and fate == 1:
        return 0
    if key is None or offset < newest.get(key, -1):
        return 0
    return stays


@both
def test_rows_walked_without_gil_are_marked_alike(module):
    records = [(b"%d" % (number % 700), b"v") for number in range(1500)]
    offsets = module.OffsetMap(1000, 900, KEY)
    columns = columns_of(records, 0)
    assert offsets.put_all(columns, 0) == 1500
    keep = bytearray(1500)
    offsets.mark(columns, bytes(1), 1499, keep)
    assert list(keep) == [0] * 800 + [1] * 700


@both
def test_malformed_map_or_marks_are_refused(module):
    for slots, entries in ((2, 2), (2, 3), (2, 0)):
        with pytest.raises(ValueError, match=f"{entries} entries in {slots} slots"):
            module.OffsetMap(slots, entries, KEY)
    columns = columns_of([(b"a", b""), (b"b", b"")], 0)
    with pytest.raises(ValueError, match="1 marks for 2 records"):
        module.OffsetMap(3, 2, KEY).mark(columns, bytes(1), 5, bytearray(1))

"""The bytes that may be the header of a batch, and the number of bytes that are read to visit all headers."""

import struct

import pytest

from tests.log.helpers import batch_bytes
from trimaran.log.batches.batch import HEADER_BYTES, header_at
from trimaran.log.disk.files import Files
from trimaran.log.segments.scan import (
    BLOCK_BYTES,
    FIRST_BLOCK_BYTES,
    is_plausible,
    read_batch,
    scan_headers,
)

GOOD = bytes(batch_bytes(3, base_offset=7))
INT32_MAX = (1 << 31) - 1


def changed(position, form, value):
    data = bytearray(GOOD)
    struct.pack_into(form, data, position, value)
    return bytes(data)


HEADERS = [
    (GOOD, True),
    (changed(0, ">q", 0), True),
    (changed(0, ">q", -1), False),
    (changed(8, ">i", HEADER_BYTES - 12), True),
    (changed(8, ">i", HEADER_BYTES - 13), False),
    (changed(8, ">i", INT32_MAX - 12), True),
    (changed(8, ">i", INT32_MAX - 11), False),
    (changed(16, ">b", 3), False),
    (changed(16, ">b", -1), False),
    (changed(23, ">i", 0), True),
    (changed(23, ">i", -1), False),
    (changed(57, ">i", 0), True),  # a batch after compaction
    (changed(57, ">i", -1), False),
]


@pytest.mark.parametrize(("data", "expected"), HEADERS)
def test_header_is_plausible_only_with_fields_in_range(data, expected):
    batch = header_at(data, 0)
    assert batch is not None
    assert is_plausible(batch) is expected


@pytest.fixture
def walked(tmp_path):
    """Visits all headers of a file with batches of that many bytes; returns positions and reads."""

    def walk(value_bytes, batches, **options):
        data = bytes(batch_bytes(1, value=bytes(value_bytes)))
        path = tmp_path / "log"
        path.write_bytes(data * batches)
        reads = []

        class Counting(Files):
            def pread(self, file, size, position):
                reads.append(size)
                return super().pread(file, size, position)

        files = Counting()
        file = files.open(path, write=False)
        size = len(data) * batches
        found = [position for position, _ in scan_headers(files, file, 0, size, **options)]
        assert found == [number * len(data) for number in range(batches)]
        return reads

    return walk


def test_only_a_block_of_large_batch_is_read(walked):
    reads = walked(300_000, 4)
    assert reads == [BLOCK_BYTES] * 4


def test_one_read_covers_many_small_batches(walked):
    assert len(walked(10, 500)) == 1


def test_blocks_grow_from_the_first_one(walked):
    reads = walked(100, 3000, first_block_bytes=FIRST_BLOCK_BYTES)
    sizes = [4096, 8192, 16384, 32768, 65536]
    assert reads[:5] == sizes
    assert set(reads[5:-1]) == {65536}


@pytest.mark.parametrize("cut", [0, 1, 10])
def test_only_whole_batches_are_read(tmp_path, cut):
    path = tmp_path / "log"
    path.write_bytes(b"x" * 5 + GOOD[: len(GOOD) - cut])
    files = Files()
    found = read_batch(files, files.open(path, write=False), 5, len(GOOD))
    assert (found is not None) is (cut == 0)
    assert found is None or found.base_offset == 7

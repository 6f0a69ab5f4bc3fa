"""Copies of records for dead letters, compared with a naive twin over all ranges and numbers of bytes."""

from __future__ import annotations

import pytest

from tests.broker.sharing.rig import SharingRig, transact
from tests.broker.sharing.test_fetches import read
from trimaran.broker.sharing import letter_copies
from trimaran.broker.sharing.dead_letters import Copies, ReadRecords
from trimaran.broker.sharing.letter_copies import copies_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression

# Keys and values by offset; the marker of a transaction is at 5.
RECORDS = {
    0: (b"k", b"vv"),
    1: (None, b"v"),
    2: (b"kkk", None),
    3: (b"", b"vvvv"),
    4: (None, None),
    6: (b"kk", b"vv"),
    7: (b"k", b"v" * 20),
    8: (None, b"vvv"),
}
ALL = ReadRecords(0, 8, 1_000, 1_000)


def append(rig, *offsets, compression=Compression.NONE, **fields):
    records = [NewRecord(*RECORDS[offset], 1) for offset in offsets]
    data = memoryview(bytearray(build_batch(records, compression=compression, **fields)))
    rig.harness.leader().append(data, list(iter_batches(data)))


@pytest.fixture
def rig(tmp_path):
    """A log of four batches and a marker; the last batch is not committed."""
    rig = SharingRig(tmp_path)
    append(rig, 0, 1, 2)
    append(rig, 3)
    transact(rig, 1, 1, is_commit=True)  # record 4 is an `x`
    append(rig, 6, 7)
    rig.harness.flush()
    append(rig, 8)
    return rig


def expected(asked):
    """Returns the copies of one record after the other."""
    known = {**RECORDS, 4: (None, b"x")}
    found, left = {}, asked.bytes_max
    for offset in range(asked.first, asked.last + 1):
        if offset not in known or offset > 7:
            continue
        size = sum(len(part or b"") for part in known[offset])
        if size > asked.bytes_of_one:
            continue
        if size > left:
            return Copies(found, offset)
        found[offset] = known[offset]
        left -= size
    return Copies(found, asked.last + 1)


@pytest.mark.parametrize("read_bytes", [1, 150, 1 << 20])
async def test_copies_are_those_of_single_records(rig, monkeypatch, read_bytes):
    monkeypatch.setattr(letter_copies, "READ_BYTES_MAX", read_bytes)
    leader = rig.harness.leader()
    for first in range(9):
        for last in range(first, 10):
            for bytes_max, bytes_of_one in ((1_000, 1_000), (7, 7), (1_000, 4), (3, 3), (25, 20)):
                asked = ReadRecords(first, last, bytes_max, bytes_of_one)
                assert await copies_of(leader, asked) == expected(asked), asked


@pytest.mark.parametrize("bytes_max", range(9))
async def test_bytes_are_for_all_reads_together(rig, monkeypatch, bytes_max):
    monkeypatch.setattr(letter_copies, "READ_BYTES_MAX", 1)
    asked = ALL._replace(bytes_max=bytes_max, bytes_of_one=4)
    assert await copies_of(rig.harness.leader(), asked) == expected(asked)


async def test_records_before_the_log_start_are_missing(rig):
    log = rig.harness.leader().log
    log.delete_records_before(3)
    found = await copies_of(rig.harness.leader(), ALL._replace(last=4))
    assert found == Copies({3: (b"", b"vvvv"), 4: (None, b"x")}, 5)


async def test_ended_leader_has_no_copies(rig):
    leader = rig.harness.leader()
    leader.end()
    assert await copies_of(leader, ALL) == Copies({}, 9)


@pytest.mark.parametrize(("bytes_of_one", "copied"), [(300, True), (100, False)])
async def test_batch_too_large_when_decompressed_is_missing(tmp_path, bytes_of_one, copied):
    rig = SharingRig(tmp_path)
    records = [NewRecord(None, b"v" * 60, 1) for _ in range(3)]
    data = memoryview(bytearray(build_batch(records, compression=Compression.GZIP)))
    rig.harness.leader().append(data, list(iter_batches(data)))
    append(rig, 0)
    rig.harness.flush()
    found = await copies_of(rig.harness.leader(), ReadRecords(1, 3, 1_000, bytes_of_one))
    large = dict.fromkeys((1, 2), (None, b"v" * 60)) if copied else {}
    assert found == Copies({**large, 3: RECORDS[0]}, 4)


async def test_damaged_batch_is_missing(tmp_path):
    rig = SharingRig(tmp_path)
    append(rig, 0, 1)
    append(rig, 3)
    rig.harness.flush()
    segment = next(tmp_path.rglob("*.log"))
    size = len(read(rig, 0, 2))
    with segment.open("r+b") as file:
        file.seek(size - 8)
        file.write(b"\xff" * 8)
    found = await copies_of(rig.harness.leader(), ReadRecords(0, 2, 1_000, 1_000))
    assert found.end == 3
    assert found.records[2] == RECORDS[3]
    assert 1 not in found.records

"""Replicas whose cleaners ran at different times are equal; a record that differs, or that no cleaner may have removed,
is a difference.
"""

import random
import shutil

import pytest

from tests.log.compaction.helpers import compact
from tests.log.compaction.test_against_twin import CONFIG, Writer
from tests.log.helpers import open_log
from tests.spark.analyses.given import Told, analysed, at
from tests.spark.directories import checkpoint, make_node
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.offset_map import SLOT_BYTES
from trimaran.spark.analyses.catalogue import ANALYSES
from trimaran.spark.analyses.running import collected
from trimaran.spark.analyses.views import columns_of, in_this_process
from trimaran.spark.in_process.database import database

NAME = "replica_divergence"
H = [{"key": "h", "value": b"x"}]


def row(offset, key=b"k", value=b"v", time=0, headers=None, producer=-1, control=None):
    return (offset, key, value, at(time), headers, producer >= 0, producer, control)


def abort(offset):
    return row(offset, b"\0\0\0\0", b"", producer=7, control="ABORT")


def commit(offset):
    return row(offset, b"\0\0\0\1", b"", producer=7, control="COMMIT")


# The records of both brokers, the offset up to which each was compacted, and how many differences there are.
A, B, K = row(1, b"a"), row(2, b"b"), row(9, b"a")
CASES = {
    "equal": ([A, B], [A, B], 10, 10, 0),
    "a value differs": ([A, B], [A, row(2, b"b", b"w")], 10, 10, 1),
    "a value is null in one": ([A], [row(1, b"a", None)], 10, 10, 1),
    "a key differs": ([A], [row(1, b"b")], 10, 10, 1),
    "a time differs": ([A], [row(1, b"a", time=1)], 10, 10, 1),
    "a header differs": ([row(1, headers=H)], [A[:1] + row(1)[1:]], 10, 10, 1),
    "equal headers": ([row(1, headers=H)], [row(1, headers=H)], 10, 10, 0),
    "only one cleaned, a later record": ([A, B, K], [B, K], 0, 10, 0),
    "cleaned further, a later record": ([A, B, K], [B, K], 5, 10, 0),
    "cleaned in the other order": ([B, K], [A, B, K], 10, 5, 0),
    "lost without a later record": ([A, B], [B], 0, 10, 1),
    "lost by the first": ([B], [A, B], 10, 10, 1),
    "a later record, which no cleaner has seen": ([A, B, K], [B, K], 10, 9, 1),
    "lost, and no cleaner ran there": ([A, B, K], [B, K], 10, 0, 1),
    "the later record is another key's": ([A, B], [B], 10, 10, 1),
    "a tombstone is gone": ([row(1, b"a", None), B], [B], 0, 10, 0),
    "a tombstone is gone where no cleaner ran": ([row(1, b"a", None), B], [B], 10, 0, 1),
    "a record without a key is gone": ([row(1, None), B], [B], 0, 10, 0),
    "an aborted record is gone": ([row(1, b"a", producer=7), abort(3)], [], 0, 10, 0),
    "a committed record is gone": ([row(1, b"a", producer=7), commit(3)], [commit(3)], 0, 10, 1),
    "a marker is gone": ([B, commit(3)], [B], 0, 10, 0),
    "a marker differs": ([commit(3)], [abort(3)], 10, 10, 1),
    "the other has a record more": ([A], [A, B], 10, 10, 1),
}


def test_each_rule_of_cleaners_is_respected(engine):
    batches, records = [], []
    for topic, (one, other, *cleaned, _) in CASES.items():
        for broker, found in ((1, one), (2, other)):
            batches.append((topic, 0, broker, 0, 99, 3, broker, 0, cleaned[broker - 1]))
            records += [(topic, 0, broker, *columns) for columns in found]
    told = analysed(engine, NAME, replica_batches=batches, compacted_records=records)
    found = {r["topic"]: (r["different"], r["compared"]) for r in told.rows()}
    assert found == {topic: (case[-1], 0) for topic, case in CASES.items()}
    assert told.levels == ["bad"]


def test_batches_above_each_cleaner_are_compared(engine):
    rows = [("orders", 0, b, 10 * i, 10 * i + 9, 3, 77, 0, 0) for b in (1, 2, 3) for i in range(4)]
    told = analysed(engine, NAME, replica_batches=rows, compacted_records=[])
    assert told.text == "Replicas: no difference in 12 batches compared, of 3 pairs of replicas."
    rows[-1] = ("orders", 0, 3, 30, 39, 2, 78, 0, None)
    told = analysed(engine, NAME, replica_batches=rows, compacted_records=[])
    assert "differences in 2 of 3 pairs; orders-0 on brokers 1 and 3 from offset 30 on" in told.text
    assert told.levels == ["bad"]


def test_records_outside_of_both_logs_are_not_compared(engine):
    """Retention has deleted the first records of one replica, and the replica has not copied the last ones yet."""
    batches = [("t", 0, 1, 0, 99, 3, 1, 0, 200), ("t", 0, 2, 50, 89, 3, 2, 50, 200)]
    records = [("t", 0, 1, *row(offset, b"%d" % offset)) for offset in (10, 49, 50, 89, 90)]
    records += [("t", 0, 2, *row(offset, b"%d" % offset)) for offset in (50, 89)]
    told = analysed(engine, NAME, replica_batches=batches, compacted_records=records)
    [pair] = told.rows()
    assert (pair["different"], pair["compared_records"]) == (0, 2)
    assert "no difference in no batch and 2 compacted records compared, of 1 pair" in told.text


# --- directories ---


def replicas(root, seed):
    """Three brokers with one log, each compacted by its own rounds, the third by none. Returns their directories."""
    r = random.Random(seed)
    log = open_log(root / "t-0", CONFIG)
    writer = Writer(log, r)
    cleaned = {1: None, 2: None}
    directories = {b: make_node(root, b) / "t-0" for b in (1, 2, 3)}
    for number in range(3):
        start = log.log_end_offset
        writer.write(60)
        writer.end_all()
        if not number:
            log.close()
            for directory in directories.values():
                shutil.copytree(log.directory, directory)
            copies = {b: open_log(directory, CONFIG) for b, directory in directories.items()}
            log = writer.log = copies[3]
        else:
            for b in (1, 2):
                append(copies[b], log, start)
        broker = 1 + number % 2
        limits = CleanerLimits(1000 * SLOT_BYTES)
        cleaned[broker] = compact(
            copies[broker], cleaned_to=cleaned[broker], limits=limits, now_ms=number
        )
    for b, copy in copies.items():
        copy.flush()
        copy.close()
        marks = {("t", 0): copy.log_end_offset}
        checkpoint(directories[b].parent, marks, cleaned={("t", 0): cleaned[b]} if b < 3 else None)
    shutil.rmtree(root / "t-0")
    return directories


def append(copy, log, start):
    """Copies the batches from an offset on, as a follower does."""
    for path in sorted(log.directory.glob("*.log")):
        for batch in iter_batches(memoryview(path.read_bytes())):
            if batch.base_offset >= start:
                copy.append_as_follower(memoryview(bytearray(batch.buffer)))


def compared(root):
    analysis = ANALYSES[NAME]
    with database() as opened:
        load = in_this_process(opened, root)
        tables = {view: load(view, columns_of(schema)) for view, schema in analysis.views.items()}
        return Told(analysis, collected(analysis.compute(**tables)))


@pytest.mark.parametrize("seed", range(3))
def test_copies_of_real_cleaners_are_equal(tmp_path, seed):
    directories = replicas(tmp_path, seed)
    sizes = {b: sum(f.stat().st_size for f in d.glob("*.log")) for b, d in directories.items()}
    assert sizes[1] < sizes[2] < sizes[3]
    told = compared(tmp_path)
    assert told.levels == ["ok"], told.text
    assert len(told.rows()) == 3
    assert all(pair["compared_records"] > 10 for pair in told.rows())


def test_batch_lost_from_cleaned_log_is_found(tmp_path):
    directories = replicas(tmp_path, 0)
    path, lost = next(
        (path, batch)
        for path in sorted(directories[1].glob("*.log"))
        for batch in iter_batches(memoryview(path.read_bytes()))
        if not batch.is_control and any(r.value is not None for r in decode_records(batch))
    )
    data = path.read_bytes()
    path.write_bytes(data.replace(bytes(lost.buffer), b""))
    assert len(path.read_bytes()) == len(data) - lost.size
    told = compared(tmp_path)
    different = {
        (r["broker"], r["other"]): r["first_different_offset"]
        for r in told.rows()
        if r["different"]
    }
    assert set(different) <= {(1, 2), (1, 3)}
    assert lost.base_offset <= min(different.values()) < lost.next_offset

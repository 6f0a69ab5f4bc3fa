"""Segments are removed between two steps of a reader: it returns the right answer or raises."""

import shutil

import pytest

from tests.log.compaction.helpers import compact
from tests.log.compaction.test_rules import append, mark, opened, put
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.partitions.timestamps import CandidateBatch
from trimaran.log.steps import at_once
from trimaran.wire.errors import ErrorCode, KafkaError

ABORTS = 70  # in each segment: more than one group of its index
SEGMENTS = 2


def expire(log):
    log.delete_records_before(log.segment_base_offsets[-1])
    assert log.apply_retention(0, log.log_end_offset) == SEGMENTS


def aborted_log(tmp_path):
    """Returns two segments of aborted transactions, reopened so that no index is in memory."""
    log = opened(tmp_path)
    for sequence in range(SEGMENTS):
        for producer in range(ABORTS):
            fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
            put(log, (b"%d" % producer, b"v"), is_transactional=True, **fields)
            mark(log, producer, commit=False)
        log.roll(0)
    put(log, (b"last", b"v"))
    log.close()
    return opened(tmp_path, clean=True)


def copied(log, path):
    """Returns a copy at `path`, of which nothing is in memory."""
    shutil.copytree(log.directory, path / log.directory.name)
    return opened(path, clean=True)


def finish(steps):
    """Returns the result of a generator of steps, and the number of its steps."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@pytest.mark.parametrize("remove", [compact, expire])
def test_segment_removed_during_abort_listing_fails_it(tmp_path, remove):
    """A reader has the segment's records open: without their aborts they would look committed."""
    whole = aborted_log(tmp_path)
    listed, count = finish(whole.find_aborted(0, 1000))
    assert len(listed) == SEGMENTS * ABORTS
    assert count > 2 * SEGMENTS
    for before in (1, count // 2, count):
        log = copied(whole, tmp_path / f"{before}")
        steps = log.find_aborted(0, 1000)
        for _ in range(before):
            next(steps)
        remove(log)
        with pytest.raises(KafkaError) as refused:
            next(steps)
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert log.health.offline is None


@pytest.mark.parametrize("remove", [compact, expire])
def test_listing_fails_for_records_read_before_removal(tmp_path, remove):
    log = aborted_log(tmp_path)
    removals = log.removals
    remove(log)
    with pytest.raises(KafkaError, match="has changed"):
        at_once(log.find_aborted(0, 1000, removals))


NEWEST_MS = 9000


def timed_log(tmp_path):
    """Returns segments that compaction merges, after reopening; the newest record is in the second."""
    log = opened(tmp_path)
    for key, timestamp_ms in ((b"a", 5000), (b"b", NEWEST_MS), (b"c", 6000)):
        append(log, build_batch([NewRecord(key, b"v", timestamp_ms)]))
        log.roll(0)
    append(log, build_batch([NewRecord(b"d", b"v", 7000)]))
    log.close()
    return opened(tmp_path, clean=True)


def newest_in_steps(log, by_time, meanwhile=None, before=0):
    """Returns the result of a look-up and the number of its steps; `meanwhile` runs after `before` of them."""
    lookup = log.look_up_timestamp(NEWEST_MS) if by_time else log.look_up_max_timestamp()
    found, count = None, 0
    while True:
        try:
            step = lookup.send(found)
        except StopIteration as end:
            return end.value, count
        count += 1
        found = step.find() if isinstance(step, CandidateBatch) else None
        if count == before:
            meanwhile(log)


@pytest.mark.parametrize("by_time", [True, False])
def test_time_lookup_works_while_compaction_merges_segment(tmp_path, by_time):
    whole = timed_log(tmp_path)
    _, count = newest_in_steps(whole, by_time)
    assert count > 3
    for before in range(1, count + 1):
        log = copied(whole, tmp_path / f"{before}")
        found, _ = newest_in_steps(log, by_time, compact, before)
        assert found is not None, f"compacted after step {before}"
        assert (found.timestamp_ms, found.offset) == (NEWEST_MS, 1)

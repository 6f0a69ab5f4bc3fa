"""Transactions in the log: last stable offset, aborted transactions, markers; compared with a naive scan of the whole
log.
"""

import errno
import random
from typing import NamedTuple

import pytest

from tests.log.faulty_files import FaultyFiles
from tests.log.helpers import append, batch_bytes, open_log, view_of
from trimaran.log.config import LogConfig
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.producers.marker import EndMarker, build_end_marker, read_end_marker
from trimaran.log.producers.state import ProducerState
from trimaran.log.producers.transactions import ENDED_MAX
from trimaran.log.segments.transaction_index import ENTRY_BYTES
from trimaran.wire.errors import ErrorCode, KafkaError

CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=150, retention_ms=-1)


class Naive(NamedTuple):
    """The naive twin: (producer, first offset, marker offset, aborted) of ended transactions and (producer, first
    offset) of open ones.
    """

    ended: list
    open: dict

    @classmethod
    def of(cls, log):
        ended, begun, offset = [], {}, log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read_bytes(offset, 1, upto_offset=log.log_end_offset)
            view = view_of(data)
            if view.is_control:
                first = begun.pop(view.producer_id, None)
                if first is not None:
                    marker = read_end_marker(view)
                    ended.append((view.producer_id, first, view.base_offset, not marker.is_commit))
            elif view.is_transactional:
                begun.setdefault(view.producer_id, view.base_offset)
            offset = view.next_offset
        return cls(ended, begun)

    def last_stable_offset(self, high_watermark):
        undecided = [first for _, first, last, _ in self.ended if last >= high_watermark]
        return min([high_watermark, *undecided, *self.open.values()])

    def aborted(self, start, end):
        return [
            (producer, first, last)
            for producer, first, last, aborted in self.ended
            if aborted and last >= start and first < end
        ]


def transactional(log, producer, sequence, count=1):
    append(
        log,
        count,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=True,
        timestamp_ms=1000 + log.log_end_offset,
    )


def end(log, producer, *, commit, coordinator_epoch=0, epoch=0):
    marker = EndMarker(commit, coordinator_epoch)
    data = build_end_marker(
        marker, producer_id=producer, producer_epoch=epoch, timestamp_ms=1000 + log.log_end_offset
    )
    view = view_of(data)
    return log.append_as_leader(view.buffer, [view], leader_epoch=0, now_ms=0)


def write_random(log, r, steps):
    """Writes records inside and outside of transactions of four producers, with markers."""
    sequences = dict.fromkeys(range(4), 0)
    open_now = set()
    for _ in range(steps):
        producer = r.randrange(4)
        if producer in open_now and r.random() < 0.4:
            end(log, producer, commit=r.random() < 0.4)
            open_now.discard(producer)
        elif r.random() < 0.2:
            append(log, r.randint(1, 2))
        else:
            count = r.randint(1, 3)
            transactional(log, producer, sequences[producer], count)
            sequences[producer] += count
            open_now.add(producer)


def assert_equals_naive(log, r, *, restarted=True):
    """Asserts equal states; as in Kafka, a restart forgets which decisions were not replicated yet."""
    naive = Naive.of(log)
    marks = [] if restarted else sorted(r.sample(range(log.log_end_offset), 5))
    for high_watermark in (*marks, log.log_end_offset):
        assert log.last_stable_offset(high_watermark) == naive.last_stable_offset(high_watermark)
    for _ in range(20):
        start = r.randrange(log.log_end_offset)
        upto = r.randint(start, log.log_end_offset)
        found = [entry[:3] for entry in log.aborted_transactions(start, upto)]
        wanted = naive.aborted(start, upto)
        assert [entry for entry in found if entry in wanted] == wanted
        assert set(found) <= set(naive.aborted(start, log.log_end_offset))
        assert all(entry[1] < upto for entry in found)


@pytest.mark.parametrize("seed", range(8))
def test_log_matches_full_reader_on_transactions(tmp_path, seed):
    """T3, T8; repeated after a clean and an unclean restart, after damage to the index, and after truncation (I3)."""
    r = random.Random(seed)
    log = open_log(tmp_path / "t-0", CONFIG)
    write_random(log, r, 150)
    assert_equals_naive(log, r, restarted=False)
    log.close()
    log = open_log(log.directory, CONFIG, clean=True, recovery_point=log.flushed_offset)
    assert_equals_naive(log, r)
    log.close(clean=False)
    recovery_point = r.randrange(log.log_end_offset)
    for path in log.directory.glob(
        "*.txnindex"
    ):  # records that were not flushed may have been lost
        keep = [
            entry
            for segment in log._segments.all
            if segment.path(".txnindex") == path
            for entry in segment.transaction_index.entries()
            if entry.last_offset < recovery_point
        ]
        path.write_bytes(path.read_bytes()[: len(keep) * ENTRY_BYTES] + b"torn" * r.randint(0, 9))
    log = open_log(log.directory, CONFIG, recovery_point=recovery_point)
    assert_equals_naive(log, r)
    log.close(clean=False)
    indexes = sorted(log.directory.glob("*.txnindex"))
    damaged = r.choice(indexes)
    data = bytearray(damaged.read_bytes())
    data[1] = 7  # the version of the first entry
    damaged.write_bytes(data)
    log = open_log(log.directory, CONFIG, clean=True)
    assert_equals_naive(log, r)
    log.truncate_to(r.randint(10, log.log_end_offset))
    assert_equals_naive(log, r)
    write_random(log, r, 40)
    assert_equals_naive(log, r)


def test_open_transactions_hold_last_stable_offset_until_replicated(tmp_path):
    log = open_log(tmp_path / "t-0")
    append(log, 2)
    transactional(log, 1, 0)
    transactional(log, 2, 0)
    assert log.last_stable_offset(4) == 2
    end(log, 1, commit=True)
    assert log.last_stable_offset(4) == 2, "the marker at 4 is not replicated"
    assert log.last_stable_offset(5) == 3, "producer 2 is open"
    end(log, 2, commit=False)
    assert log.last_stable_offset(5) == 3
    assert log.last_stable_offset(6) == 6
    assert log.aborted_transactions(0, 6) == [(2, 3, 5, 6)]
    assert log.aborted_transactions(0, 3) == []


def test_failed_index_write_moves_no_offset(tmp_path):
    """KAFKA-7866."""
    files = FaultyFiles()
    log = open_log(tmp_path / "t-0", files=files)
    transactional(log, 1, 0)
    log.flush()
    log_end, stable = log.log_end_offset, log.last_stable_offset(log.log_end_offset)
    files.fail_at("pwrite", 2, errno.ENOSPC, sticky=True)  # the batch, then the index
    with pytest.raises(KafkaError) as raised:
        end(log, 1, commit=False)
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.log_end_offset, log.last_stable_offset(log_end)) == (log_end, stable)
    again = open_log(log.directory, recovery_point=1, files=REAL_FILES)
    assert again.log_end_offset in (log_end, log_end + 1)
    expected = [(1, 0, 1, 2)] if again.log_end_offset == 2 else []
    assert again.aborted_transactions(0, 2) == expected


def test_markers_are_fenced_by_epoch_and_coordinator():
    state = ProducerState()
    data = batch_bytes(1, producer_id=7, producer_epoch=3, base_sequence=0, is_transactional=True)
    state.update(view_of(data))
    state.check_marker(EndMarker(True, 5), 7, 3, 1)
    state.check_marker(EndMarker(True, 5), 8, 0, 2)
    refused(state, EndMarker(True, 5), 7, 2, 0, ErrorCode.INVALID_PRODUCER_EPOCH)
    refused(state, EndMarker(True, 5), 7, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH)
    state.check_marker(EndMarker(True, 5), 7, 4, 2)
    marker = build_end_marker(EndMarker(True, 5), producer_id=7, producer_epoch=4, timestamp_ms=1)
    view = view_of(marker)
    view.base_offset = 1
    assert state.update(view) == (7, 0, 1, False)
    state.check_marker(EndMarker(True, 5), 7, 4, 2)  # the same batch again: a retry
    refused(state, EndMarker(True, 4), 7, 5, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    refused(state, EndMarker(True, 6), 7, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH)


def refused(state, marker, producer, epoch, version, code):
    with pytest.raises(KafkaError) as raised:
        state.check_marker(marker, producer, epoch, version)
    assert raised.value.code is code


def test_no_batch_outside_of_an_open_transaction():
    state = ProducerState()
    state.update(
        view_of(
            batch_bytes(1, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        )
    )
    with pytest.raises(KafkaError) as raised:
        state.validate(view_of(batch_bytes(1, producer_id=7, producer_epoch=0, base_sequence=1)))
    assert raised.value.code is ErrorCode.INVALID_TXN_STATE


def test_ended_transactions_are_bounded_below_fixed_watermark(tmp_path):
    state = ProducerState()
    offset = 0
    for producer in range(ENDED_MAX + 50):
        data = batch_bytes(
            1,
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        state.update(view_of(data))
        marker = build_end_marker(
            EndMarker(True, 0), producer_id=producer, producer_epoch=0, timestamp_ms=1
        )
        view = view_of(marker)
        view.base_offset = offset + 1
        state.update(view)
        offset += 2
    assert len(state.transactions._ended) == ENDED_MAX
    assert state.transactions.last_stable_offset(0) == 0
    assert state.transactions.last_stable_offset(3) == 0, "those taken as one hold the offset back"
    assert state.transactions.last_stable_offset(200) == 200
    assert state.transactions.last_stable_offset(offset) == offset


@pytest.mark.parametrize("done", range(4))
def test_interrupted_deletion_keeps_aborts_with_their_records(tmp_path, done):
    """The process dies between two renames of a segment: if its log returns, its transaction index does, too."""
    files = FaultyFiles()
    log = open_log(tmp_path / "t-0", CONFIG, files=files)
    transactional(log, 7, 0, 3)
    end(log, 7, commit=False)
    log.roll(0)
    transactional(log, 8, 0)
    log.flush()
    end_offset = log.log_end_offset
    log.delete_records_before(4)
    files.fail_at("rename", done + 1)
    with pytest.raises(KafkaError):
        log.apply_retention(0, end_offset)
    log.close(clean=False)
    log = open_log(tmp_path / "t-0", CONFIG, recovery_point=end_offset)
    found = [
        (aborted_transaction.producer_id, aborted_transaction.last_offset)
        for aborted_transaction in log.aborted_transactions(0, end_offset)
    ]
    assert found == ([(7, 3)] if log.log_start_offset == 0 else [])


def test_truncated_abort_does_not_return_when_segment_seals(tmp_path):
    """The index was truncated to no entries: that is synced too, before the log counts as flushed."""
    log = open_log(tmp_path / "t-0", CONFIG)
    append(log, 1)
    transactional(log, 7, 0)
    end(log, 7, commit=False)
    log.truncate_to(1)
    append(log, 3)
    log.roll(0)
    synced = {file.path.name for file in log.prepare_flush().open_files}
    assert "00000000000000000000.txnindex" in synced


def flip_first(path):
    data = bytearray(path.read_bytes())
    data[0] ^= 1  # the version of the first entry
    path.write_bytes(data)


def put_directory(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", [flip_first, put_directory])
def test_damaged_abort_index_is_rebuilt_below_recovery_point(tmp_path, damage, clean, caplog):
    """The index is rebuilt from the log's start, whatever snapshot exists: an unknown abort would count as a commit."""
    log = open_log(tmp_path / "t-0", CONFIG)
    for producer in (7, 8):
        transactional(log, producer, 0)
        end(log, producer, commit=False)
    end_offset = log.log_end_offset
    aborted = log.aborted_transactions(0, end_offset)
    assert len(aborted) == 2
    log.close()
    assert list((tmp_path / "t-0").glob("*.snapshot"))
    damage(tmp_path / "t-0" / f"{0:020d}.txnindex")
    for _ in range(2):  # the next process sees no damage any more
        log = open_log(tmp_path / "t-0", CONFIG, recovery_point=end_offset, clean=clean)
        if not clean:
            log.close(clean=False)
            continue
        assert log.aborted_transactions(0, end_offset) == aborted
        log.close()
    log = open_log(tmp_path / "t-0", CONFIG, recovery_point=end_offset, clean=clean)
    assert log.aborted_transactions(0, end_offset) == aborted
    assert log.last_stable_offset(end_offset) == end_offset
    assert caplog.text.count("txnindex") >= 1


@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"x"), put_directory])
def test_flush_tolerates_damaged_abort_index(tmp_path, damage):
    log = open_log(tmp_path / "t-0", CONFIG)
    transactional(log, 7, 0)
    end(log, 7, commit=False)
    aborted = log.aborted_transactions(0, log.log_end_offset)
    log.close()
    damage(tmp_path / "t-0" / f"{0:020d}.txnindex")
    log = open_log(tmp_path / "t-0", CONFIG, recovery_point=log.log_end_offset, clean=True)
    append(log, 1)
    log.roll(0)
    assert log.flush() == log.log_end_offset
    assert log.aborted_transactions(0, log.log_end_offset) == aborted

"""Compaction compared with a naive one; offsets, look-ups and the producers' state before and after."""

import random

import pytest

from tests.log.compaction.helpers import compact
from tests.log.helpers import open_log, view_of
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction import batches as cleaning_batches
from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.offset_map import SLOT_BYTES
from trimaran.log.config import LogConfig
from trimaran.log.producers.marker import EndMarker, build_end_marker

DAY_MS = 24 * 3600 * 1000
CONFIG = LogConfig(
    segment_bytes=1500,
    index_interval_bytes=200,
    compacts=True,
    deletes=False,
    delete_retention_ms=1000,
)


def obvious(records, end):
    """Returns the last record of each key below `end`, and everything from there on."""
    last = {record.key: record.offset for record in records if record.offset < end}
    return [r for r in records if r.offset >= end or last.get(r.key) == r.offset]


def views_of(log):
    offset, views = log.segment_base_offsets[0], []
    while offset < log.log_end_offset:
        data = log.read_bytes(offset, 1 << 20, upto_offset=log.log_end_offset)
        if not data:
            break  # a gap up to the end
        views += list(iter_batches(data))
        offset = views[-1].next_offset
    return views


def records_of(log):
    return [r for v in views_of(log) if not v.is_control for r in decode_records(v)]


class Writer:
    """Writes random batches of a few keys: plain, compressed, idempotent, in transactions."""

    def __init__(self, log, r):
        self.log, self.r = log, r
        self.sequences = dict.fromkeys(range(4), 0)
        self.open = set()
        self.aborted = set()  # offsets
        self._since = {}

    def write(self, batches):
        for _ in range(batches):
            producer = self.r.randrange(-2, 4)
            if producer in self.open and self.r.random() < 0.4:
                self.end(producer)
            else:
                self.data(producer)

    def data(self, producer):
        r = self.r
        time = 1000 + self.log.log_end_offset
        records = [
            NewRecord(
                b"%d" % r.randrange(12),
                None if r.random() < 0.15 else r.randbytes(r.randint(0, 40)),
                time + i,
                [("h", b"x")] if r.random() < 0.2 else (),
            )
            for i in range(r.randint(1, 4))
        ]
        fields = {}
        if producer >= 0:
            fields = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": self.sequences[producer],
                "is_transactional": producer >= 2,
            }
            self.sequences[producer] += len(records)
        if producer >= 2:
            self.open.add(producer)
            self._since.setdefault(producer, []).extend(
                range(self.log.log_end_offset, self.log.log_end_offset + len(records))
            )
        self.append(build_batch(records, compression=r.choice(list(Compression)), **fields))

    def end(self, producer):
        commit = self.r.random() < 0.5
        self.open.discard(producer)
        offsets = self._since.pop(producer)
        if not commit:
            self.aborted.update(offsets)
        marker = EndMarker(commit, 0)
        time = 1000 + self.log.log_end_offset
        self.append(
            build_end_marker(marker, producer_id=producer, producer_epoch=0, timestamp_ms=time)
        )

    def end_all(self):
        for producer in sorted(self.open):
            self.end(producer)

    def append(self, data):
        view = view_of(bytearray(data))
        self.log.append_as_leader(view.buffer, [view], leader_epoch=0, now_ms=0)


def sequences(log):
    return {
        producer: (entry.epoch, entry.batches[-1].last_sequence if entry.batches else None)
        for producer, entry in log.producers.entries()
    }


@pytest.mark.parametrize("seed", range(12))
def test_newest_value_of_each_key_stays(tmp_path, monkeypatch, seed):
    if seed % 2:  # a batch with more records is processed in pieces
        monkeypatch.setattr(cleaning_batches, "RECORDS_AT_ONCE", 2)
    r = random.Random(seed)
    log = open_log(tmp_path / "t-0", CONFIG)
    writer = Writer(log, r)
    cleaned_to = None
    slots = r.choice([20, 1000])  # with 20, a round only gets part of the way
    for round_number in range(4):
        writer.write(60)
        if r.random() < 0.7:
            writer.end_all()
        before = [x for x in records_of(log) if x.offset not in writer.aborted]
        end_offset, known = log.log_end_offset, sequences(log)
        stable = log.last_stable_offset(end_offset)
        aborted = log.aborted_transactions(0, end_offset)
        cleaned_to = compact(
            log,
            cleaned_to=cleaned_to,
            limits=CleanerLimits(slots * SLOT_BYTES),
            now_ms=round_number,
        )
        assert cleaned_to <= stable
        after = records_of(log)
        seen = [x for x in after if x.offset not in writer.aborted]
        assert seen == obvious(before, cleaned_to)
        assert (log.log_end_offset, log.last_stable_offset(end_offset)) == (end_offset, stable)
        offsets = {x.offset for x in after}
        lost = [e for e in aborted if e not in log.aborted_transactions(0, end_offset)]
        for entry in lost:  # then no record of it is left
            assert not offsets & (writer.aborted & set(range(entry[1], entry[2])))
        assert_lookups(log, after, r)
        log.close(clean=r.random() < 0.5)
        for path in log.directory.glob("*.snapshot"):
            path.unlink()
        log = writer.log = open_log(log.directory, CONFIG, recovery_point=end_offset)
        assert sequences(log) == known
        assert records_of(log) == after


def assert_lookups(log, records, r):
    """Asserts that each offset finds the first remaining record at or above it."""
    for _ in range(20):
        offset = r.randrange(log.log_end_offset)
        data = log.read_bytes(offset, 1, upto_offset=log.log_end_offset)
        found = next(
            (
                x.offset
                for view in iter_batches(data)
                if not view.is_control
                for x in decode_records(view)
                if x.offset >= offset
            ),
            None,
        )
        if found is not None:
            assert found == next(x.offset for x in records if x.offset >= offset)
    newest = {}
    for record in records:
        newest.setdefault(record.timestamp_ms, record.offset)
    for timestamp in r.sample(sorted(newest), min(5, len(newest))):
        assert log.offset_for_timestamp(timestamp).offset == min(
            x.offset for x in records if x.timestamp_ms >= timestamp
        )

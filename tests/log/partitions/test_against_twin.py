"""`PartitionLog` compared with a twin that is a list of batches: the same results after any sequence of operations."""

import random

import pytest

from tests.log.helpers import open_log
from trimaran.log.batches.batch import Compression, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.config import LogConfig
from trimaran.wire.errors import ErrorCode, KafkaError


class Twin:
    """The naive log: every batch as bytes, and every query answered by scanning all of them."""

    def __init__(self):
        self.batches = []  # BatchView, whole
        self.start = 0
        self.end = 0
        self.assigned = []  # (epoch, start offset) in the order of their beginning

    def append(self, data):
        for view in iter_batches(memoryview(bytes(data))):
            self.batches.append(view)
            self.end = view.next_offset
            self.assign(view.leader_epoch, view.base_offset)

    def assign(self, epoch, offset):
        if not self.assigned or self.assigned[-1][0] < epoch:
            self.assigned = [e for e in self.assigned if e[1] < offset] + [(epoch, offset)]

    def read(self, offset, max_bytes, upto, first_base_of_next):
        """Returns batches of one segment, from the batch that contains `offset` on."""
        out, size = [], 0
        for view in self.batches:
            if view.last_offset < offset:
                continue
            if view.last_offset >= upto or (out and view.base_offset >= first_base_of_next):
                break
            if out and size + view.size > max_bytes:
                break
            out.append(bytes(view.buffer))
            size += view.size
            if size > max_bytes:
                break
        return b"".join(out)

    def truncate(self, offset):
        cut = next((v.base_offset for v in self.batches if v.last_offset >= offset), None)
        if cut is not None and offset < self.end:
            self.end = min(offset, cut)
        elif offset < self.end:
            self.end = offset
        self.batches = [v for v in self.batches if v.last_offset < self.end]
        self.assigned = [e for e in self.assigned if e[1] < self.end]
        if self.end < self.start:
            self.start, self.batches, self.assigned = self.end, [], []

    def timestamp(self, timestamp):
        for view in self.batches:
            for record in decode_records(view):
                if record.timestamp_ms >= timestamp and record.offset >= self.start:
                    return record.timestamp_ms, record.offset, view.leader_epoch
        return None

    def max_timestamp(self):
        records = [(r, v) for v in self.batches for r in decode_records(v)]
        top = max(r.timestamp_ms for r, _ in records)
        record, view = next((r, v) for r, v in records if r.timestamp_ms == top)
        return top, record.offset, view.leader_epoch

    def epoch_end(self, epoch):
        entries = [e for e in self.assigned if e[1] < self.end or e is self.assigned[-1]]
        if not entries or epoch < 0 or epoch > entries[-1][0]:
            return -1, -1
        if epoch == entries[-1][0]:
            return epoch, self.end
        below = [e for e in entries if e[0] <= epoch]
        above = [e for e in entries if e[0] > epoch]
        return (below[-1][0] if below else epoch), above[0][1]


CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=120, retention_ms=-1)


class Machine:
    """Runs random operations on both."""

    def __init__(self, directory, seed):
        self.random = random.Random(seed)
        self.directory = directory
        self.log = open_log(directory, CONFIG)
        self.twin = Twin()
        self.epoch = 0
        self.clock = 1000

    def batch(self, base_offset=0, epoch=-1):
        r = self.random
        self.clock += r.randint(-30, 60)
        records = [
            NewRecord(None, b"x" * r.randint(0, 60), max(0, self.clock + r.randint(-20, 20)))
            for _ in range(r.randint(1, 6))
        ]
        kind = r.choice([Compression.NONE, Compression.NONE, Compression.LZ4])
        return bytearray(
            build_batch(records, base_offset=base_offset, leader_epoch=epoch, compression=kind)
        )

    def op_append(self):
        if self.random.random() < 0.1:
            self.epoch += self.random.randint(1, 2)
        data = b"".join(self.batch() for _ in range(self.random.randint(1, 2)))
        view = memoryview(bytearray(data))
        self.log.append_as_leader(view, list(iter_batches(view)), leader_epoch=self.epoch, now_ms=0)
        self.twin.append(view)

    def op_follow(self):
        offset = self.twin.end
        data = bytearray()
        for _ in range(self.random.randint(1, 12)):
            if self.random.random() < 0.1:
                self.epoch += 1
            piece = self.batch(offset, self.epoch)
            offset += next(iter_batches(piece)).count
            data += piece
        cut = self.random.randint(0, 20)
        self.log.append_as_follower(memoryview(data + self.batch(offset)[:cut]))
        self.twin.append(data)

    def op_flush(self):
        self.log.flush()
        assert self.log.flushed_offset == self.log.log_end_offset

    def op_truncate(self):
        offset = self.random.randint(max(self.twin.start, self.twin.end - 60), self.twin.end + 3)
        if offset > self.log.segment_base_offsets[0] and offset >= self.twin.start:
            self.log.truncate_to(offset)
            self.twin.truncate(offset)

    def op_delete_records(self):
        if self.random.random() < 0.3:
            offset = self.random.randint(self.twin.start, max(self.twin.start, self.twin.end - 50))
            self.log.delete_records_before(offset)
            self.log.apply_retention(0, self.twin.end)
            self.twin.start = offset
            first = self.log.segment_base_offsets[0]
            assert first <= offset
            self.twin.batches = [v for v in self.twin.batches if v.base_offset >= first]
            below = [e for e in self.twin.assigned if e[1] <= offset]
            if below:
                self.twin.assigned = [(below[-1][0], offset), *self.twin.assigned[len(below) :]]

    def op_reopen(self):
        clean = self.random.random() < 0.5
        start = self.log.log_start_offset
        if clean:
            self.log.close()
        else:
            self.log.flush()  # otherwise only the epochs of the batches would be known, not those assigned since
        point = (
            self.log.flushed_offset
            if self.random.random() < 0.5 or clean
            else self.random.randint(start, self.log.flushed_offset)
        )
        self.log.close(clean=False)
        if self.random.random() < 0.5:
            self.damage_indexes()
        self.log = open_log(
            self.directory, CONFIG, recovery_point=point, clean=clean, log_start_offset=start
        )

    def damage_indexes(self):
        for path in [*self.directory.glob("*.index"), *self.directory.glob("*.timeindex")]:
            what = self.random.choice(
                ["keep", "keep", "missing", "empty", "short", "zeros", "garbage", "other"]
            )
            data = path.read_bytes()
            if what == "missing":
                path.unlink()
            elif what == "empty":
                path.write_bytes(b"")
            elif what == "short":
                path.write_bytes(data[: self.random.randint(0, len(data))])
            elif what == "zeros":
                path.write_bytes(data + bytes(240))
            elif what == "garbage":
                path.write_bytes(self.random.randbytes(len(data) + 7))
            elif what == "other":
                others = sorted(self.directory.glob("*" + path.suffix))
                path.write_bytes(self.random.choice(others).read_bytes())

    def check(self):
        log, twin, r = self.log, self.twin, self.random
        assert (log.log_start_offset, log.log_end_offset) == (twin.start, twin.end)
        assert log.size_bytes == sum(v.size for v in twin.batches)
        self.check_read(r.randint(twin.start, twin.end), r.choice([1, 100, 400, 5000]))
        if twin.start < twin.end:
            self.check_read(r.randint(max(twin.start, twin.end - 10), twin.end), 300)
        timestamp = self.clock + r.randint(-800, 100)
        assert log.offset_for_timestamp(timestamp) == twin.timestamp(timestamp)
        if any(v.last_offset >= 0 for v in twin.batches):
            assert log.max_timestamp_offset() == twin.max_timestamp()
        epoch = r.randint(-1, self.epoch + 1)
        assert log.end_offset_for_epoch(epoch) == twin.epoch_end(epoch)

    def check_read(self, offset, max_bytes):
        log, twin = self.log, self.twin
        upto = self.random.choice([twin.end, self.random.randint(twin.start, twin.end)])
        above = [b for b in log.segment_base_offsets if b > offset]
        got = log.read_bytes(offset, max_bytes, upto_offset=upto)
        want = twin.read(offset, max_bytes, upto, above[0] if above else twin.end)
        assert got == want, (offset, max_bytes, upto)
        piece = log.read(offset, max_bytes, upto_offset=upto, min_one=False)
        assert (piece.read() if piece else b"") == (want if len(want) <= max_bytes else b"")


OPERATIONS = ["append"] * 6 + ["follow"] * 2 + ["flush", "truncate", "delete_records", "reopen"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_log_equals_its_twin(tmp_path, seed):
    machine = Machine(tmp_path / "t-0", seed)
    for _ in range(90):
        getattr(machine, "op_" + machine.random.choice(OPERATIONS))()
        machine.check()


def test_offsets_outside_of_log_are_refused(tmp_path):
    machine = Machine(tmp_path / "t-0", 1)
    machine.op_append()
    for offset in (-1, machine.twin.end + 1):
        with pytest.raises(KafkaError) as raised:
            machine.log.read(offset, 100, upto_offset=machine.twin.end, min_one=True)
        assert raised.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

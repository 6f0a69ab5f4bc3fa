"""The commands of a segment's transcripts, and the report after each: every call of the file system, the state in
memory, and the content of the indexes and of their files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from tests.datadriven import Step
from tests.log.helpers import batch_bytes
from tests.log.recorded_files import RecordedFiles
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.segments import in_steps
from trimaran.log.segments import segment as segment_module
from trimaran.log.segments.index import IndexDamaged, IndexLost, OffsetIndex, TimeIndex
from trimaran.log.segments.rolling import age_ms, entries_left
from trimaran.log.segments.segment import Segment, SegmentDamaged
from trimaran.log.segments.transaction_index import AbortedTransaction

FAULTS = (SegmentDamaged, IndexDamaged, IndexLost)


class Interaction:
    """One segment; offsets are absolute. A batch is written `offset+records:bytes@timestamp/epoch`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.files = RecordedFiles()
        self.segment = Segment(directory, 0, self.files, size=0, created=True)
        self.interval = 0
        self.steps: Iterator[int] = iter(())
        self.told = ""

    def handle(self, step: Step) -> str:
        constants = {"TAIL_BATCHES_MAX": 4, "HINTS_MAX": 2, "LARGE_BATCH_BYTES": 500}
        with mock.patch.multiple(segment_module, **constants, REBUILT_AT_ONCE_BYTES=1000):
            try:
                said = getattr(self, "do_" + step.command)(**step.args)
            except FAULTS as error:
                said = f"{type(error).__name__}: {str(error).replace(f'{self.directory}/', '')}"
        lines = [] if said is None else str(said).splitlines()
        lines += self.files.taken()
        state = self.state()
        lines += [line for line in state if line not in self.told]
        self.told = state
        self.files.taken()
        return "\n".join(lines)

    def state(self) -> list[str]:
        one = self.segment
        tail = zip(one._tail_last_offsets, one._tail_positions, strict=True)
        return [
            f"= {one.size} bytes up to {one.next_offset}, epoch {one.last_epoch}",
            f"= newest {one.max_timestamp} at {one.max_timestamp_offset}, known: {one.max_is_known}",
            f"= first {one.first_timestamp}, {one._bytes_since_index} bytes since the last entry",
            f"= tail above {one._tail_floor}:{''.join(f' {last}@{at}' for last, at in tail)}",
            f"= hints {one._hints}",
            f"= opened at {one.opened_ms}, exists: {one.exists}, removed: {one.removed}",
            *(self.index(index) for index in (one.offset_index, one.time_index)),
            *(self.file(path) for path in sorted(self.directory.iterdir())),
        ]

    @staticmethod
    def index(index: OffsetIndex | TimeIndex) -> str:
        kind = index.path.suffix
        if not index._loaded:
            return f"= {kind} not loaded"
        pending = list(index.layout.iter_unpack(index._pending))
        if len(pending) > 20:
            return f"= {kind}: {index._written} in the file, then {len(pending)}; last {index.last}"
        behind = "".join(f" {first}:{second}" for first, second in pending)
        return f"= {kind}: {index._written} in the file, then{behind}; last {index.last}"

    @staticmethod
    def file(path: Path) -> str:
        data = path.read_bytes()
        layout = {".index": OffsetIndex.layout, ".timeindex": TimeIndex.layout}.get(path.suffix)
        if layout is None or len(data) % layout.size or len(data) > 300:
            return f"= file {path.suffix} of {len(data)} bytes"
        return f"= file {path.suffix}{''.join(f' {a}:{b}' for a, b in layout.iter_unpack(data))}"

    # Commands

    def do_new(self, base: str, interval: str, preallocate: str = "0") -> None:
        self.interval = int(interval)
        self.segment = Segment(self.directory, int(base), self.files, size=0, created=True)
        self.segment.create(int(preallocate))

    def do_create(self, preallocate: str = "0") -> None:
        self.segment.create(int(preallocate))

    def do_append(self, batches: str) -> None:
        data, views = self.built(batches)
        self.segment.append(memoryview(data), views, self.interval)

    def do_append_many(self, count: str) -> None:
        """Appends batches of 100 bytes, with ascending timestamps."""
        first = self.segment.next_offset
        for at in range(first, first + int(count)):
            self.do_append(f"{at}+1:30@{at}/0")

    def do_write(self, batches: str) -> None:
        """Writes bytes behind the segment's end, without noting them."""
        with self.segment.path(".log").open("ab") as file:
            file.write(self.built(batches)[0])

    @staticmethod
    def built(batches: str) -> tuple[bytes, list[BatchView]]:
        pieces = []
        for part in batches.strip("()").split():
            offset, _, rest = part.partition("+")
            count, size, timestamp, epoch = (
                int(number)
                for number in rest.replace(":", " ").replace("@", " ").replace("/", " ").split()
            )
            pieces.append(
                batch_bytes(
                    count,
                    value=bytes(size),
                    timestamp_ms=timestamp,
                    step_ms=0,
                    base_offset=int(offset),
                    leader_epoch=epoch,
                )
            )
        data = b"".join(pieces)
        return data, list(iter_batches(memoryview(data)))

    def do_seal(self) -> None:
        self.segment.seal()

    def do_release(self) -> None:
        self.segment.release()

    def do_truncate(self, position: str, offset: str) -> None:
        self.segment.truncate(int(position), int(offset), self.interval)

    def do_abort(self, last: str) -> None:
        self.segment.transaction_index.append(AbortedTransaction(7, 0, int(last), 1 << 40))

    def do_reopen(self, size: str = "") -> None:
        """Reopens as a new process does; what is only in memory is lost."""
        path = self.segment.path(".log")
        self.segment = Segment(
            self.directory,
            self.segment.base_offset,
            self.files,
            size=int(size or path.stat().st_size),
            created=False,
        )

    def do_load(self, clean: str = "no") -> str:
        return f"valid up to {self.segment.load_tail(self.interval, is_clean=clean == 'yes')}"

    def do_rebuild(self) -> str:
        return f"valid up to {self.segment.rebuild(self.interval)}"

    def do_write_indexes(self) -> None:
        self.segment.write_indexes()

    def do_index_files(self) -> str:
        return "to sync: " + " ".join(file.path.suffix for file in self.segment.index_files())

    def do_put(self, suffix: str, entries: str = "()", more: str = "0") -> None:
        """Replaces the content of an index, followed by `more` zero bytes."""
        layout = (OffsetIndex if suffix == ".index" else TimeIndex).layout
        pairs = [map(int, part.split(":")) for part in entries.strip("()").split()]
        data = b"".join(layout.pack(*pair) for pair in pairs)
        self.segment.path(suffix).write_bytes(data + bytes(int(more)))

    def do_remove(self, suffix: str) -> None:
        self.segment.path(suffix).unlink()

    def do_flip(self, at: str) -> None:
        """Changes a byte in the log."""
        path = self.segment.path(".log")
        data = bytearray(path.read_bytes())
        data[int(at)] ^= 0x55
        path.write_bytes(data)

    def do_take_away(self) -> None:
        self.segment.removed = True

    def do_set_size(self, size: str) -> None:
        self.segment.size = int(size)

    def do_begin(self, what: str) -> None:
        """Begins a long operation, which proceeds in steps."""
        steps = {
            "rebuild": in_steps.rebuild_in_steps,
            "largest": in_steps.largest_timestamp,
            "sound": in_steps.sound_index,
        }
        self.steps = steps[what](self.segment, self.interval)

    def do_go_on(self, times: str = "1") -> str:
        done = []
        for _ in range(int(times)):
            try:
                done.append(str(next(self.steps)))
            except StopIteration as end:
                return ", ".join([*done, f"ends with {end.value}"])
        return ", ".join(done)

    def do_fill(self, counts: str, steps: str, write: str = "yes") -> None:
        """Fills both indexes with this many entries, each far from the one before."""
        first, second = self.segment.offset_index.last or (0, 0)
        for count, step in zip(self.numbers(counts), self.numbers(steps), strict=True):
            for _ in range(count):
                first, second = first + step, second + 2 * step + 1
                self.segment.offset_index.append(first, second)
                self.segment.time_index.append(first, second)
        if write == "yes":
            self.segment.write_indexes()

    def do_find(self, keys: str, suffix: str = ".index", field: str = "0") -> str:
        one = self.segment
        index = one.offset_index if suffix == ".index" else one.time_index
        at = int(field)
        return self.each(
            keys,
            lambda key: (
                f"{index.floor(key, at)}, slot {index.ceiling(key, at)} {index.ceiling_entry(key, at)}"
            ),
        )

    def do_locate(self, offsets: str, rebuilds: str = "yes") -> str:
        return self.each(
            offsets,
            lambda offset: self.segment.locate(offset, self.interval, rebuilds=rebuilds == "yes"),
        )

    def do_boundary(self, limits: str, start: str = "0") -> str:
        return self.each(
            limits, lambda limit: self.segment.boundary(limit, int(start), self.interval)
        )

    def do_end_before(self, positions: str) -> str:
        return self.each(
            positions, lambda position: self.segment.end_before(position, self.interval)
        )

    def do_end_of_batch(self, positions: str) -> str:
        return self.each(positions, self.segment.end_of_batch)

    def do_hint(self, position: str, offset: str) -> None:
        self.segment.hint(segment_module.Boundary(int(position), int(offset)))

    def do_age(self, now: str, timestamps: str) -> str:
        self.segment.opened_ms = 30
        return self.each(timestamps, lambda timestamp: age_ms(self.segment, timestamp, int(now)))

    def do_full(self, limits: str) -> str:
        return self.each(limits, lambda limit: entries_left(self.segment, limit) < 0)

    @staticmethod
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.strip("()").split()]

    def each(self, text: str, ask: Callable[[int], object]) -> str:
        lines = []
        for number in self.numbers(text):
            try:
                answer = ask(number)
            except FAULTS as error:
                answer = f"{type(error).__name__}: {str(error).replace(f'{self.directory}/', '')}"
            if isinstance(answer, tuple):
                answer = f"{answer[0]}, go on at {answer[1]}"
            calls = self.files.taken()
            lines.append(f"{number}: {answer}" + (f" ({', '.join(calls)})" if calls else ""))
        return "\n".join(lines)

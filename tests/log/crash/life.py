"""The life of one partition in two log directories, step by step at random, and what must be true after each step.

A life is a function of its seed. Every file operation is recorded, so that `tests.log.crash.check` knows for each
moment what must survive a crash: what was acked (flushed and reported) before the step in which the crash falls.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import trio
from immutables import Map

from tests.log.faulty_files import FaultyFiles
from trimaran.broker.background.directory_moves import align
from trimaran.broker.storage.directories import LogDirectories
from trimaran.broker.storage.unfinished_moves import finish_moves
from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.planning import dirt_of, plan_round
from trimaran.log.config import LogConfig
from trimaran.log.directories import closing
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.segments.segment import Segment
from trimaran.quorum.metadata.image import (
    UNASSIGNED_DIRECTORY,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from trimaran.wire.identity import TopicPartition

TOPIC, INDEX = KEY = TopicPartition("t", 0)
NODE_ID = 11
TOPIC_ID = bytes(range(100, 116))
DIRECTORIES = ("d0", "d1")
PRODUCERS = 3


class Batch(NamedTuple):
    """A batch with its bytes; two batches with the same `place` have the same position in the same history."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    data: bytes

    @property
    def place(self) -> tuple[int, int, int]:
        """The position of the batch, which compaction preserves."""
        return self.base_offset, self.last_offset, self.leader_epoch


def batches_of(data: bytes | bytearray | memoryview) -> list[Batch]:
    return [
        Batch(v.base_offset, v.last_offset, v.leader_epoch, bytes(v.buffer))
        for v in iter_batches(memoryview(data))
    ]


@dataclass(frozen=True, slots=True)
class State:
    """The state of a log. Everything below `acked_offset` was reported as durable. The first of `batches` may begin
    below `start_offset`.

    `aborts` are those (producer id, offset of the marker) that a compaction left in the transaction index: their data
    is gone, so they cannot be found again.
    """

    batches: tuple[Batch, ...] = ()
    start_offset: int = 0
    acked_offset: int = 0
    aborts: frozenset[tuple[int, int]] = frozenset()


class Step(NamedTuple):
    """Operations [first, end) of the recording."""

    name: str
    first: int
    end: int
    before: State
    after: State
    # The lowest offset that the log has reported as durable meanwhile, even if no batch is there.
    durable_end: int


def config_of(seed: int) -> LogConfig:
    """Returns a config; every third life has a compacted topic."""
    prng = random.Random(seed)
    compacts = seed % 3 == 2
    return LogConfig(
        segment_bytes=prng.choice([1400, 2500, 5000]),
        index_interval_bytes=prng.choice([1, 150, 400]),
        retention_ms=-1,
        compacts=compacts,
        deletes=not compacts or prng.random() < 0.5,
        delete_retention_ms=0,
    )


def format_directories(root: Path) -> None:
    for number, name in enumerate(DIRECTORIES):
        (root / name).mkdir()
        MetaProperties("Vk_zJvdfRf6PsrkaTDAJ-A", NODE_ID, bytes([number + 1] * 16)).save(
            root / name
        )


def open_directories(root: Path, files: FaultyFiles, unread: str = "") -> LogDirectories:
    """Opens directories as a broker does at its start; it cannot read the directory `unread`."""
    opened = [LogDirectory(root / name, files=files) for name in DIRECTORIES if name != unread]
    failed = {root / unread: "gone"} if unread else {}
    directories = LogDirectories(opened, failed_at_start=failed)
    state = PartitionImage(
        replicas=(NODE_ID,), directories=(UNASSIGNED_DIRECTORY,), isr=(NODE_ID,), leader=NODE_ID
    )
    topic = TopicImage(TOPIC, TOPIC_ID, Map({INDEX: state}))
    topics = TopicsImage(by_name=Map({TOPIC: topic}), by_id=Map({TOPIC_ID: topic}))
    trio.run(finish_moves, directories, topics, NODE_ID)
    return directories


class Life:
    """`steps` and `files.recording` are the outcome; `written` are all batches ever written, `follows` has each batch
    with its predecessor.
    """

    def __init__(self, root: Path, seed: int) -> None:
        format_directories(root)
        self.root = root
        self.seed = seed
        self.config = config_of(seed)
        self.files = FaultyFiles()
        self.files.watch(root)
        self.steps: list[Step] = []
        self.written: set[Batch] = set()
        self.follows: set[tuple[Batch | None, Batch]] = set()
        self.state = State()
        # The last batch before the log's start, if retention or a deletion removed all.
        self._deleted: Batch | None = None
        self._prng = random.Random(seed)
        self._clock_ms = 1_000_000
        self._epoch = 0
        self._values = 0
        self._sequences = dict.fromkeys(range(PRODUCERS), 0)
        self._open_transactions: set[int] = set()
        self.directories = open_directories(root, self.files)
        self.log = self._open()
        self._durable_end = self.log.flushed_offset

    def run(self, steps: int) -> Life:
        weights = WEIGHTS | COMPACTED_WEIGHTS if self.config.compacts else WEIGHTS
        names = [name for name, weight in weights.items() for _ in range(weight)]
        for _ in range(steps):
            self.take(self._prng.choice(names))
        self.directories.close(broker_epoch=None, high_watermarks={})
        return self

    def take(self, name: str) -> None:
        first, before = len(self.files.recording.operations), self.state
        self._durable_end = self.log.flushed_offset
        getattr(self, name)()
        self._change()
        end = len(self.files.recording.operations)
        self.steps.append(Step(name, first, end, before, self.state, self._durable_end))

    def _open(self) -> PartitionLog:
        log = self.directories.open_log(KEY, TOPIC_ID, self.config)
        lower = log._flushing.lower

        def lower_and_note(offset: int) -> None:
            lower(offset)
            self._durable_end = min(self._durable_end, log.flushed_offset)

        log._flushing.lower = lower_and_note  # type: ignore[method-assign]
        return log

    # Bookkeeping

    def _note_appended(self, data: bytes | bytearray | memoryview) -> None:
        new = batches_of(data)
        last = self.state.batches[-1] if self.state.batches else None
        if last is None and self._deleted is not None:
            self.follows.add((self._deleted, new[0]))  # a crash may restore the deleted batch
        for batch in new:
            self.written.add(batch)
            self.follows.add((last, batch))
            last = batch
        self._change(batches=(*self.state.batches, *new))

    def _note_flushed(self, offset: int) -> None:
        self._change(acked_offset=max(self.state.acked_offset, offset))

    def _change(self, **fields: Any) -> None:
        self.state = replace(self.state, **fields)
        self._durable_end = min(self._durable_end, self.log.flushed_offset)

    # Writing

    def _records(self) -> list[NewRecord]:
        prng = self._prng
        self._clock_ms += prng.randint(-30, 60)
        records = []
        for _ in range(prng.randint(1, 4)):
            self._values += 1
            value = b"%d" % self._values + b"x" * prng.choice([0, 20, 120])
            records.append(NewRecord(b"k%d" % prng.randint(0, 6), value, self._clock_ms))
        return records

    def _batch(self, **fields: int) -> bytearray:
        prng = self._prng
        producer = prng.choice([-1, *range(PRODUCERS)])
        records = self._records()
        transactional = producer in self._open_transactions or (
            producer >= 0 and prng.random() < 0.5
        )
        if producer >= 0:
            fields |= {"producer_id": producer, "producer_epoch": 0}
            fields["base_sequence"] = self._sequences[producer]
            self._sequences[producer] += len(records)
            if transactional:
                self._open_transactions.add(producer)
        compression = prng.choice([Compression.NONE, Compression.NONE, Compression.LZ4])
        return bytearray(
            build_batch(records, compression=compression, is_transactional=transactional, **fields)
        )

    def _marker(self) -> bytearray | None:
        if not self._open_transactions:
            return None
        producer = self._prng.choice(sorted(self._open_transactions))
        self._open_transactions.discard(producer)
        marker = EndMarker(self._prng.random() < 0.5, 0)
        return build_end_marker(
            marker, producer_id=producer, producer_epoch=0, timestamp_ms=self._clock_ms
        )

    def _append(self, data: bytearray) -> None:
        view = memoryview(data)
        self.log.append_as_leader(
            view, list(iter_batches(view)), leader_epoch=self._epoch, now_ms=self._clock_ms
        )
        self._note_appended(data)

    def lead(self) -> None:
        if self._prng.random() < 0.1:
            self._epoch += 1
            self.log.epochs.assign(self._epoch, self.log.log_end_offset)
        self._append(bytearray().join(self._batch() for _ in range(self._prng.randint(1, 2))))

    def mark(self) -> None:
        if (marker := self._marker()) is not None:
            self._append(marker)

    def follow(self) -> None:
        data, offset = bytearray(), self.log.log_end_offset
        for _ in range(self._prng.randint(1, 6)):
            self._epoch += self._prng.random() < 0.1
            data += self._batch(base_offset=offset, leader_epoch=self._epoch)
            offset = batches_of(data)[-1].last_offset + 1
        self.log.append_as_follower(memoryview(data), now_ms=self._clock_ms)
        self._note_appended(data)

    def roll(self) -> None:
        self.log.roll(self._clock_ms)

    def flush(self) -> None:
        self._note_flushed(self.log.flush())

    def pause(self) -> None:
        """Lets time pass without writes: everything is flushed and noted, and a segment may expire."""
        self.flush()
        self.checkpoint()
        if self._prng.random() < 0.5:
            self.roll()

    def flush_while_appending(self) -> None:
        flush = self.log.prepare_flush()
        self.lead()
        if self._prng.random() < 0.3:
            self.log.roll(self._clock_ms)
        if self._prng.random() < 0.5:
            self.checkpoint()  # run by the timer, which does not wait for flushes
        flush.run()
        self._note_flushed(self.log.finish_flush(flush))

    # Removal of records

    def truncate(self) -> None:
        end = self.log.log_end_offset
        offset = self._prng.randint(max(self.log.log_start_offset, end - 25), end)
        self._shorten(lambda: self.log.truncate_to(offset))
        match self._prng.randrange(3):
            case 0:  # a segment may expire at any moment
                self.roll()
            case 1:  # another leader's records replace the removed ones
                self.follow()
                self.pause()

    def empty(self) -> None:
        if self._prng.random() < 0.2:
            end = self.log.log_end_offset
            offset = self._prng.randint(self.log.log_start_offset, end + 20)
            self._shorten(lambda: self.log.truncate_fully_and_start_at(offset))

    def _shorten(self, action) -> None:
        action()
        log, self._deleted = self.log, None
        kept = tuple(b for b in self.state.batches if b.last_offset < log.log_end_offset)
        if log.segment_base_offsets[0] >= log.log_end_offset:
            kept = ()
        end = log.log_end_offset
        self._change(
            batches=kept,
            start_offset=log.log_start_offset,
            acked_offset=min(self.state.acked_offset, end),
            aborts=frozenset(a for a in self.state.aborts if kept and a[1] < end),
        )
        self._epoch += 1  # later batches come from another leader
        self._open_transactions = open_transactions(kept)

    def delete_records(self) -> None:
        mark = self.state.acked_offset
        if self.log.log_start_offset < mark:
            self.log.delete_records_before(
                self._prng.randint(self.log.log_start_offset, min(mark, self.log.log_end_offset))
            )
        self.log.apply_retention(self._clock_ms, self.log.flushed_offset)
        first = self.log.segment_base_offsets[0]
        kept = tuple(b for b in self.state.batches if b.last_offset >= first)
        if self.state.batches and not kept:
            self._deleted = self.state.batches[-1]
        self._change(batches=kept, start_offset=self.log.log_start_offset)

    def compact(self) -> None:
        """Compacts sealed, decided and flushed records; often these are all records, otherwise almost none."""
        if self._prng.random() < 0.5:
            while self._open_transactions:
                self.mark()
            self.roll()
            self.flush()
        log = self.log
        mark = log.flushed_offset
        directory = self.directories.holding(KEY)
        cleaned_to = directory.offsets.cleaner_offsets.get(KEY)
        dirt = dirt_of(log, cleaned_to=cleaned_to, high_watermark=mark, now_ms=self._clock_ms)
        if not dirt.dirty_bytes:
            return
        cleaning = plan_round(
            log, dirt, limits=CleanerLimits(1 << 16), map_key=bytes(16), now_ms=self._clock_ms,
            pause=lambda _: None,
        )  # fmt: skip
        end_offset = cleaning.build_map()
        assert directory.write_checkpoints(
            directory.collect_checkpoints()
        )  # as the log cleaner does
        for sources in cleaning.groups(end_offset):
            cleaned = cleaning.clean(sources)
            replaced = [source.segment for source in sources]
            self._note_half_replaced(replaced, cleaned)
            assert log.replace_segments(replaced, cleaned)
            self._note_content()
        listed = log.aborted_transactions(log.segment_base_offsets[0], end_offset)
        left = ((a.producer_id, a.last_offset) for a in listed if a.last_offset < end_offset)
        self._change(aborts=frozenset(left))
        self.files.fsync_directory(log.directory)
        log.purge()
        directory.offsets.write(directory.offsets.collect_cleaned({KEY: end_offset}))

    def _note_half_replaced(self, replaced: list[Segment], cleaned: Segment) -> None:
        """Notes segments that a crash may leave: they begin beyond the records of the cleaned one, and are cleaned
        another time.
        """
        batches = self._content_of(cleaned)
        for left in replaced:
            if batches and left.base_offset > batches[-1].last_offset:
                self.follows.add((batches[-1], self._content_of(left)[0]))

    def _content_of(self, segment: Segment) -> list[Batch]:
        return batches_of(self.files.pread(segment.file, segment.size, 0))

    def _note_content(self) -> None:
        """Notes the log's content after a compaction."""
        log = self.log
        batches = [
            batch
            for segment in (*log.sealed_segments, log.active_segment)
            if segment.exists
            for batch in self._content_of(segment)
        ]
        self.written.update(batches)  # including those below the start, which a crash may restore
        self.follows.update(zip([None, *batches], batches, strict=False))
        start = log.log_start_offset
        self._change(batches=tuple(batch for batch in batches if batch.last_offset >= start))

    # Directories

    def checkpoint(self) -> None:
        for directory in self.directories.all:
            directory.save_checkpoints({KEY: self.log.flushed_offset})

    def purge(self) -> None:
        for directory in self.directories.all:
            directory.purge()

    def stop(self) -> None:
        """Stops cleanly; the files are synced one by one or all at once."""
        many = closing.SYNCS_MAX
        closing.SYNCS_MAX = self._prng.choice([0, many])
        self.directories.close(broker_epoch=3, high_watermarks={KEY: self.log.flushed_offset})
        closing.SYNCS_MAX = many
        self._note_flushed(self.log.log_end_offset)
        self._start()

    def kill(self) -> None:
        """Ends the process abruptly; what it wrote is in the page cache."""
        self.directories.close(broker_epoch=None, high_watermarks={})
        self._start()

    def _start(self) -> None:
        self.directories = open_directories(self.root, self.files)
        self.log = self._open()
        start = self.log.log_start_offset
        kept = tuple(b for b in self.state.batches if b.last_offset >= start)
        found = tuple(b for b in read_batches(self.log) if b.last_offset >= start)
        after = [b for b in found if b.last_offset >= self.state.start_offset]
        assert after == [b for b in kept if b.last_offset >= self.state.start_offset]
        self._change(batches=found, start_offset=start)

    def move(self) -> None:
        current = self.directories.holding(KEY)
        target = next(directory for directory in self.directories.all if directory is not current)
        source = self.log
        copy = target.futures.open(KEY, TOPIC_ID, self.config)
        align(source, copy)
        while copy.log_end_offset < source.log_end_offset:
            data = source.read_bytes(copy.log_end_offset, 900, upto_offset=source.log_end_offset)
            copy.append_as_follower(memoryview(data))
            align(source, copy)
            if self._prng.random() < 0.04:
                copy.close(clean=False)  # cancelled, or left for the next process
                if self._prng.random() < 0.5:
                    target.futures.drop(KEY)
                else:
                    self.kill()
                return
        copy.flush()
        start = source.log_start_offset
        copy.close()
        target.promote_future(KEY, end_offset=copy.flushed_offset, start_offset=start)
        current.hand_over(KEY)
        self._note_flushed(copy.flushed_offset)
        self.log = self._open()
        # A copy that was begun before a crash may have a deletion that the source has lost.
        self._change(start_offset=self.log.log_start_offset, aborts=frozenset())
        self._note_content()


# Relative frequency of each step.
WEIGHTS = {
    "lead": 10, "follow": 5, "mark": 6, "flush": 4, "pause": 3, "flush_while_appending": 2, "roll": 1,
    "truncate": 3, "empty": 1, "delete_records": 2, "checkpoint": 4, "purge": 1, "stop": 1, "kill": 2, "move": 1,
}  # fmt: skip
COMPACTED_WEIGHTS = {"compact": 5}


def read_batches(log: PartitionLog) -> list[Batch]:
    """Returns everything from the log's start to its end, by consecutive reads."""
    offset, found = log.log_start_offset, []
    while offset < log.log_end_offset:
        data = log.read_bytes(offset, 1 << 20, upto_offset=log.log_end_offset)
        if not data:
            break  # the rest was compacted away
        found += batches_of(data)
        offset = found[-1].last_offset + 1
    return found


def open_transactions(batches: Sequence[Batch]) -> set[int]:
    """Returns, by producer id, the transactions that `batches`, all up to a log's end, leave open."""
    found = set()
    for view in views_of(batches):
        if view.is_control:
            found.discard(view.producer_id)
        elif view.is_transactional:
            found.add(view.producer_id)
    return found


def views_of(batches: Sequence[Batch]) -> list[BatchView]:
    return [view for batch in batches for view in iter_batches(memoryview(batch.data))]

"""Checks that a log recovered after a crash is in a permitted state, compared with a naive replay of its batches."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests.log.crash.life import (
    DIRECTORIES,
    KEY,
    TOPIC_ID,
    Batch,
    Life,
    State,
    Step,
    open_directories,
    read_batches,
    views_of,
)
from tests.log.faulty_files import FaultyFiles, make_so
from tests.log.power_loss import Disk, Style, Tree
from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.marker import read_end_marker
from trimaran.wire.errors import KafkaError


class Violation(AssertionError):
    """A crash had a forbidden effect."""


def demand(condition: object, what: str, *facts: object) -> None:
    if not condition:
        raise Violation(": ".join([what, *map(str, facts)]))


@dataclass
class Naive:
    """The content of the batches, read from first to last."""

    epochs: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    abort_markers: set[tuple[int, int]] = field(default_factory=set)  # producer, offset
    records: list[tuple[int, int, int]] = field(default_factory=list)  # timestamp, offset, epoch

    @classmethod
    def of(cls, batches: list[Batch], start_offset: int) -> Naive:
        naive = cls()
        for view in views_of(batches):
            if not naive.epochs or naive.epochs[-1][0] < view.leader_epoch:
                naive.epochs.append((view.leader_epoch, max(view.base_offset, start_offset)))
            for record in decode_records(view):
                if record.offset >= start_offset:
                    naive.records.append((record.timestamp_ms, record.offset, view.leader_epoch))
            if view.producer_id >= 0:
                naive._note_producer(view)
        kept = [e for e in naive.epochs if e[1] > start_offset]
        below = [e for e in naive.epochs if e[1] <= start_offset]
        naive.epochs = below[-1:] + kept
        return naive

    def _note_producer(self, view: BatchView) -> None:
        producer = view.producer_id
        if not view.is_control:
            self.producers[producer] = view.producer_epoch, view.last_sequence, view.last_offset
            if view.is_transactional and view.count:
                self.open.setdefault(producer, view.base_offset)
            return
        marker = read_end_marker(view)
        first = self.open.pop(producer, None)
        if marker is None or marker.is_commit:
            return
        self.abort_markers.add((producer, view.base_offset))
        if first is not None:
            self.aborted.append((producer, first, view.base_offset))


def place_on_disk(tree: Tree, root: Path, target: Path) -> None:
    """Writes the tree, which was below `root`, below `target`, and nothing else."""
    shutil.rmtree(target, ignore_errors=True)
    source = str(root)
    moved = {
        f"{target}{path.removeprefix(source)}": content
        for path, content in tree.items()
        if path.startswith(source)
    }
    make_so(moved, instead_of={})


def content_of(root: Path) -> dict[str, bytes]:
    """Returns all files except indexes, which are completed when they are needed."""
    return {
        os.path.join(folder, name): Path(folder, name).read_bytes()
        for folder, _, names in os.walk(root)
        for name in names
        if not name.endswith(("index", ".lock"))
    }


def check_tree(life: Life, step: Step, tree: Tree, scratch: Path, prng: Random) -> int:
    """Recovers the state that a crash in `step` left, and judges it; returns the number of tried states."""
    place_on_disk(tree, life.root, scratch)
    dice = Random(sum(map(len, tree)))  # a separate random source, so that seeds keep their meaning
    if dice.random() < 0.1:
        _start_with_one_away(life, step, scratch, dice.choice(DIRECTORIES))
    files = FaultyFiles()
    files.watch(scratch)
    first = _recovered(life, step, scratch, files)
    if prng.random() < 0.3:
        before = content_of(scratch)
        second = _recovered(life, step, scratch, FaultyFiles())
        demand(second == first, "a second recovery finds another log")
        demand(content_of(scratch) == before, "a second recovery changes files")
    if prng.random() < 0.3:
        operations = files.recording.operations
        disk = Disk(files.recording)
        for operation in operations[: prng.randint(0, len(operations))]:
            disk.apply(operation)
        place_on_disk(disk.after(prng.choice(list(Style)), prng), scratch, scratch)
        _recovered(life, step, scratch, FaultyFiles())
        return 2
    return 1


def _start_with_one_away(life: Life, step: Step, root: Path, unread: str) -> None:
    """P20: all acknowledged records are served meanwhile, and no later start misses any."""
    config = replace(life.config, compacts=False, deletes=True)
    directories = open_directories(root, FaultyFiles(), unread)
    try:
        log = directories.open_log(KEY, TOPIC_ID, config)
    except KafkaError:
        return
    else:
        _judge(life, step, log)
    finally:
        directories.close(broker_epoch=None, high_watermarks={})


def _recovered(life: Life, step: Step, root: Path, files: FaultyFiles) -> list[Batch]:
    # Compaction's gaps remain when the topic's cleanup.policy becomes `delete`, and recovery must accept them.
    config = replace(life.config, compacts=False, deletes=True)
    directories = open_directories(root, files)
    try:
        holder = directories.holding(KEY)
        if holder is None:
            demand(not required(step) and not step.durable_end, "the replica is gone")
            return []
        if required(step):
            demand(holder.topic_id(KEY) == TOPIC_ID, "the topic id is lost")
        log = holder.open_log(KEY, config)
        return _judge(life, step, log)
    finally:
        directories.close(broker_epoch=None, high_watermarks={})


def required(step: Step) -> list[Batch]:
    """Returns the batches that were acknowledged before the step and not removed by it."""
    after = {batch.place for batch in step.after.batches}
    acked = min(step.before.acked_offset, step.after.acked_offset)
    start = max(step.before.start_offset, step.after.start_offset)
    return [
        batch
        for batch in step.before.batches
        if batch.last_offset < acked and batch.last_offset >= start and batch.place in after
    ]


def _judge(life: Life, step: Step, log: PartitionLog) -> list[Batch]:
    batches = read_batches(log)
    demand(
        log.log_start_offset <= max(step.before.start_offset, step.after.start_offset),
        "the log's start is too high",
    )
    demand(
        log.log_end_offset >= step.durable_end,
        *("it ends too low", log.log_end_offset, step.durable_end, step.name),
    )
    last: Batch | None = None
    for batch in batches:
        demand(batch in life.written, "never written", batch.place)
        demand(
            last is None or (last, batch) in life.follows,
            "does not follow",
            last and last.place,
            batch.place,
        )
        last = batch
    places = {batch.place for batch in batches}
    for batch in required(step):
        demand(batch.place in places, "acked and lost", batch.place, step.name)
    _judge_state(life, step, log, batches)
    return batches


def _judge_state(life: Life, step: Step, log: PartitionLog, batches: list[Batch]) -> None:
    naive = Naive.of(batches, log.log_start_offset)
    end = log.log_end_offset
    demand(not batches or batches[-1].last_offset < end, "ends before its last batch")
    if life.config.compacts:
        for view in views_of(batches):
            if view.base_offset >= log.log_start_offset:
                demand(log.epochs.epoch_for(view.base_offset) == view.leader_epoch, "epoch", view)
        _judge_compacted_aborts(log, naive, step.after)
    else:
        demand(not batches or batches[-1].last_offset + 1 == end, "ends behind its last batch")
        demand(log.epochs.entries() == naive.epochs, "epochs", log.epochs.entries(), naive.epochs)
        first = batches[0].base_offset if batches else end
        start = max(step.before.start_offset, step.after.start_offset)
        _judge_producers(log, naive, max(start, first))
    _judge_lookups(log, batches, naive)


def _judge_producers(log: PartitionLog, naive: Naive, first: int) -> None:
    """Records deleted below `first` may reappear after a crash; a producer that has only those may be forgotten."""
    producers = dict(log.producers.entries())
    for producer, facts in naive.producers.items():
        entry = producers.get(producer)
        known = entry is not None and bool(entry.batches)
        demand(known or facts[2] < first, "producer forgotten", producer)
        if entry is not None and known:
            kept = entry.batches[-1]
            found = (entry.epoch, kept.last_sequence, kept.last_offset)
            demand(found == facts, "producer", facts, kept)
    for producer, offset in naive.open.items():
        entry = producers.get(producer)
        start = -1 if entry is None else entry.transaction_start
        demand(
            start == offset or offset < first or 0 <= start < first,
            "open transaction",
            producer,
            start,
            offset,
        )
    for producer, entry in producers.items():
        ended = entry.transaction_start >= first and producer not in naive.open
        demand(not ended, "transaction that ended", producer)
    end = log.log_end_offset
    listed = {(a.producer_id, a.last_offset): a.first_offset for a in log.aborted_transactions(first, end)}  # fmt: skip
    wanted = {(producer, last): offset for producer, offset, last in naive.aborted}
    for key, offset in wanted.items():
        same = listed.get(key) == offset or listed.get(key, first) < first
        demand(same or offset < first, "abort forgotten", key, listed)
    for key, offset in listed.items():
        demand(key in wanted or offset < first, "abort that never was", key, wanted)
    if first == 0:
        stable = min([end, *naive.open.values()])
        demand(
            log.producers.transactions.last_stable_offset(end) == stable,
            "last stable offset",
            stable,
        )


def _judge_compacted_aborts(log: PartitionLog, naive: Naive, after: State) -> None:
    """Before and after a round, an aborted transaction is known as long as its marker remains."""
    found = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    first_offsets = {(a.producer_id, a.last_offset): a.first_offset for a in found}
    for producer, first, last in naive.aborted:
        listed = first_offsets.get((producer, last))
        demand(listed is not None and listed <= first, "aborted data is served", producer, first)
    never_were = first_offsets.keys() - naive.abort_markers
    demand(not never_were, "abort without a marker", never_were)
    forgotten = (after.aborts & naive.abort_markers) - first_offsets.keys()
    demand(not forgotten, "abort forgotten", forgotten)


def _judge_lookups(log: PartitionLog, batches: list[Batch], naive: Naive) -> None:
    end = log.log_end_offset
    for batch in batches:
        if batch.base_offset >= log.log_start_offset:
            data = log.read_bytes(batch.base_offset, 1, upto_offset=end)
            demand(data == batch.data, "another batch is read", batch.place)
    for timestamp, _, _ in naive.records[::3]:
        wanted = next(record for record in naive.records if record[0] >= timestamp)
        found = log.offset_for_timestamp(timestamp)
        demand(found is not None and tuple(found) == wanted, "timestamp", timestamp, found, wanted)

"""The commands of a partition log's transcripts, and the report after each: the result, every call of the file system,
lines for the operator, the log's state, and the content of its directory.
"""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from unittest.mock import patch

from tests.datadriven import Step
from tests.log.helpers import batch_bytes
from tests.log.recorded_files import RecordedFiles, short
from trimaran.log.batches.batch import TimestampType, iter_batches
from trimaran.log.batches.records import Record
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.durability import flush
from trimaran.log.durability.flush import Flush
from trimaran.log.old_formats.message_sets import build_message_set
from trimaran.log.partitions import timestamps
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.partitions.timestamps import CandidateBatch
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.state import ProducerState
from trimaran.log.segments import segment
from trimaran.log.segments.index import OffsetIndex, TimeIndex
from trimaran.log.segments.slices import LogSlice
from trimaran.log.steps import TakesLong
from trimaran.wire.errors import KafkaError, RemoteProtocolError

LAYOUTS = {
    ".index": OffsetIndex.layout,
    ".timeindex": TimeIndex.layout,
    ".txnindex": struct.Struct(">hqqqq"),
}


def numbers(text: str) -> list[int]:
    return [int(part) for part in text.strip("()").split()]


def described(found: object) -> str:
    if not isinstance(found, ProducerState):
        return str(found)
    return f"producers up to {found.end_offset}" + "".join(
        f"\n{producer}/{entry.epoch}: {[tuple(batch) for batch in entry.batches]}, coordinator "
        f"{entry.coordinator_epoch}, seen at {entry.last_timestamp}, marker at {entry.marker_offset}, "
        f"open from {entry.transaction_start}"
        for producer, entry in found.entries()
    )


def named_in(lines: list[str]) -> set[str]:
    return {line.split()[2].rstrip(":,") for line in lines if line.startswith("= file")}


class Interaction(logging.Handler):
    """One log, in a directory `t-0`.

    A batch of a leader is written `records:bytes@timestamp`, one of a follower `offset+records:bytes@timestamp/epoch`.
    """

    def __init__(self, parent: Path) -> None:
        super().__init__()
        self.directory = parent / "logs" / "t-0"
        self.directory.mkdir(parents=True)
        self.files = RecordedFiles()
        self.config = LogConfig()
        self.log: PartitionLog | None = None
        self.flushes: dict[str, Flush] = {}
        self.steps: dict[str, Iterator[object]] = {}
        self.slices: list[LogSlice] = []
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.files.lines.append(f"log: {self.plain(record.getMessage())}")

    def plain(self, text: str) -> str:
        return text.replace(f"{self.directory}/", "").replace(str(self.directory), "t-0")

    def answer(self, step: Step) -> str:
        with (
            patch.object(flush, "WRITTEN_OUT_BYTES", 150),
            patch.object(segment, "REBUILT_AT_ONCE_BYTES", 700),
            patch.object(timestamps, "SMALL_BYTES", 400),
            patch.object(timestamps, "RECORDS_BYTES_MAX", 500),
            patch.object(timestamps, "PIECE_BYTES", 50),
        ):
            return "\n".join(self.lines(step))

    def lines(self, step: Step) -> list[str]:
        logger = logging.getLogger("trimaran.log")
        logger.addHandler(self)
        try:
            said = getattr(self, "do_" + step.command)(**step.args)
        except KafkaError as error:
            said = f"{error.code.name}: {self.plain(error.message)}"
        except (RemoteProtocolError, OSError, TakesLong) as error:
            said = f"{type(error).__name__}: {self.plain(str(error))}"
        finally:
            logger.removeHandler(self)
        lines = [] if said is None else self.plain(str(said)).splitlines()
        lines += self.files.taken()
        state = [*self.state(), *self.listing()]
        lines += [line for line in state if line not in self.told]
        lines += [f"= no file {name}" for name in sorted(named_in(self.told) - named_in(state))]
        self.told = state
        self.files.taken()
        return lines

    def state(self) -> list[str]:
        log = self.log
        if log is None:
            return []
        dues = (
            "must_flush",
            "needs_only_a_sync",
            "must_close",
            "lacks_index",
            "knows_producers",
            "is_closed",
        )
        opened = [
            str(segment.base_offset) for segment in log._segments.all if segment._log_file.is_open
        ]
        return [
            f"= {self.plain(repr(log))}",
            f"= segments {' '.join(map(str, log.segment_base_offsets))}, {log.size_bytes} bytes",
            f"= epochs{''.join(f' {epoch}:{start}' for epoch, start in log.epochs.entries())}"
            f", {log.epochs.version} changes",
            f"= {', '.join(due for due in dues if getattr(log, due))}",
            f"= open {' '.join(opened)}",
            f"= {log.truncations} truncations, {log.removals} removals, active since {log.active_segment.opened_ms}",
        ]

    def listing(self) -> list[str]:
        return [
            f"= file {short(path)}{self.content(path)}" for path in sorted(self.directory.iterdir())
        ]

    @staticmethod
    def content(path: Path) -> str:
        if path.is_dir():
            return " is a directory"
        data = path.read_bytes()
        if path.name == "leader-epoch-checkpoint":
            return ": " + " ".join(data.decode().split())
        if path.suffix == ".log":
            views = iter_batches(memoryview(data), allow_partial_tail=True, allow_old=True)
            try:
                return f", {len(data)} bytes:" + "".join(
                    f" {view.base_offset}-{view.last_offset}/{view.leader_epoch}" for view in views
                )
            except RemoteProtocolError:
                return f", {len(data)} bytes"
        layout = LAYOUTS.get(path.suffix)
        if layout is None or len(data) % layout.size:
            return f", {len(data)} bytes"
        return ":" + "".join(" " + ":".join(map(str, entry)) for entry in layout.iter_unpack(data))

    # Opening and closing

    def do_config(self, **options: str) -> None:
        kinds = {field.name: field.type for field in fields(LogConfig)}
        given: dict[str, object] = {}
        for name, value in options.items():
            given[name] = value == "yes" if kinds[name] == "bool" else value
            if kinds[name] in ("int", "float"):
                given[name] = float(value) if "." in value else int(value)
            if name == "message_timestamp_type":
                given[name] = TimestampType[value]
        self.config = replace(self.config, **given)
        if self.log is not None:
            self.log.config = self.config

    def do_open(
        self,
        point: str = "0",
        clean: str = "no",
        start: str = "0",
        cleaned: str = "0",
        now: str = "0",
    ) -> None:
        """Opens the log as a new process does: state that the previous process had only in memory is lost."""
        self.files, self.log = RecordedFiles(), None
        self.log = PartitionLog.open(
            self.directory,
            self.config,
            LastRun(
                recovery_point=int(point),
                clean_shutdown=clean == "yes",
                log_start_offset=int(start),
                cleaned_to=int(cleaned),
            ),
            now_ms=int(now),
            files=self.files,
        )
        self.log.before_truncate = lambda point: self.files.lines.append(
            f"note recovery point {point}"
        )

    def do_close(self, clean: str = "yes") -> None:
        self.log.close(clean=clean == "yes")

    def do_close_unsynced(self) -> None:
        self.log.close_unsynced()

    def do_prepare_log(self) -> None:
        self.log.prepare()

    def do_note_synced(self) -> None:
        self.log.note_synced()

    # Writing

    def do_append(
        self,
        batches: str,
        epoch: str = "0",
        now: str = "0",
        step: str = "0",
        readonly: str = "no",
        codec: str = "NONE",
    ) -> str:
        pieces = []
        for part in batches.strip("()").split():
            count, size, timestamp = map(int, part.replace("@", ":").split(":"))
            pieces.append(
                batch_bytes(
                    count,
                    value=bytes(size),
                    timestamp_ms=timestamp,
                    step_ms=int(step),
                    compression=Compression[codec],
                )
            )
        data = b"".join(pieces)
        return self.written(data if readonly == "yes" else bytearray(data), epoch, now)

    def written(self, data: bytes | bytearray, epoch: str = "0", now: str = "0") -> str:
        view = memoryview(data)
        info = self.log.append_as_leader(
            view, list(iter_batches(view)), leader_epoch=int(epoch), now_ms=int(now)
        )
        return str(tuple(info))

    def do_produce(
        self,
        producer: str,
        sequence: str,
        count: str = "1",
        epoch: str = "0",
        transactional: str = "no",
    ) -> str:
        return self.written(
            batch_bytes(
                int(count),
                timestamp_ms=1000,
                producer_id=int(producer),
                producer_epoch=int(epoch),
                base_sequence=int(sequence),
                is_transactional=transactional == "yes",
            )
        )

    def do_mark(self, producer: str, commit: str, epoch: str = "0", now: str = "0") -> str:
        marker = EndMarker(commit == "yes", 0)
        return self.written(
            build_end_marker(
                marker, producer_id=int(producer), producer_epoch=int(epoch), timestamp_ms=1000
            ),
            now=now,
        )

    @staticmethod
    def fetched(batches: str) -> bytes:
        """Returns fetched batches; `/v1` and `/v0` in place of an epoch create messages of old formats, `/v1s` a
        compressed one.
        """
        pieces: list[bytes] = []
        for part in batches.strip("()").split():
            place, _, epoch = part.replace("+", ":").replace("@", ":").partition("/")
            offset, count, size, timestamp = map(int, place.split(":"))
            if epoch.startswith("v"):
                records = [
                    Record(offset + number, timestamp + number, None, bytes(size), ())
                    for number in range(count)
                ]
                codec = Compression.SNAPPY if epoch.endswith("s") else Compression.NONE
                pieces.append(build_message_set(records, magic=int(epoch[1]), compression=codec))
                continue
            fields = {"base_offset": offset, "leader_epoch": int(epoch)}
            value = bytes(size)
            pieces.append(
                batch_bytes(count, value=value, timestamp_ms=timestamp, step_ms=0, **fields)
            )
        return b"".join(pieces)

    def do_follow(
        self, batches: str, now: str = "0", leader: str = "99", cut: str = "0", flip: str = ""
    ) -> str:
        data = bytearray(self.fetched(batches))
        if flip:
            data[int(flip)] ^= 0x55
        view = memoryview(data)[: len(data) - int(cut)]
        info = self.log.append_as_follower(view, now_ms=int(now), leader_epoch=int(leader))
        return str(tuple(info))

    def do_begin_epoch(self, epoch: str) -> None:
        self.log.begin_epoch(int(epoch))

    def do_roll(self, now: str = "0") -> None:
        self.log.roll(int(now))

    def do_skip_to(self, offset: str) -> None:
        self.log.skip_to(int(offset), 0)

    # Flushing

    def do_flush(self) -> str:
        return f"flushed {self.log.flush()}"

    def do_prepare(self, name: str = "one") -> str:
        made = self.flushes[name] = self.log.prepare_flush()
        files = " ".join(short(open_file.path) for open_file in made.open_files)
        written = " ".join(
            f"{short(file.path)}[{start}, {end})" for file, start, end in made.written
        )
        descriptors = made.descriptors()
        epochs = made.epochs and " ".join(made.epochs[1].decode().split())
        return (
            f"to {made.end_offset}: {files}; written {written}; epochs {epochs}; "
            f"names {' '.join(directory.name for directory in made.directories if directory == self.directory)}; "
            f"parent {self.directory.parent in made.directories}; "
            f"by the kernel {descriptors is not None}"
        )

    def do_run(self, name: str = "one") -> None:
        self.flushes[name].run()

    def do_gone(self) -> None:
        with self.log.names.taken_away():
            pass

    def do_synced(self, name: str = "one") -> None:
        self.flushes[name].synced(None)

    def do_failed(self, name: str = "one") -> None:
        self.flushes[name].synced(OSError(5, "Input/output error"))

    def do_descriptors(self, name: str = "one") -> str:
        return f"by the kernel {self.flushes[name].descriptors() is not None}"

    def do_finish(self, name: str = "one") -> str:
        return f"flushed {self.log.finish_flush(self.flushes[name])}, ends at {self.flushes[name].end_offset}"

    def do_kernel(self, syncs: str) -> None:
        self.files.kernel_syncs = syncs == "yes"

    # Reading

    def do_read(
        self, offsets: str, most: str = "1000", upto: str = "", min_one: str = "yes"
    ) -> str:
        upto_offset = int(upto or self.log.log_end_offset)

        def ask(offset: int) -> str:
            piece = self.log.read(
                offset, int(most), upto_offset=upto_offset, min_one=min_one == "yes"
            )
            if piece is None:
                return "nothing"
            self.slices.append(piece)
            return (
                f"{short(piece.file.path)} [{piece.position}, {piece.position + piece.size}), "
                f"from {piece.first_offset}, below {piece.end_offset}"
            )

        return self.each(offsets, ask)

    def do_read_slices(self) -> str:
        """Reads the slices of earlier reads again."""
        found = [list(iter_batches(memoryview(piece.read()))) for piece in self.slices]
        self.slices.clear()
        return "\n".join(f"[{views[0].base_offset}, {views[-1].next_offset})" for views in found)

    def do_timestamps(self, wanted: str, headers: str = "") -> str:
        return self.each(
            wanted,
            lambda time_ms: self.log.offset_for_timestamp(
                time_ms, int(headers) if headers else None
            ),
        )

    def do_max_timestamp(self, headers: str = "") -> str:
        return str(self.log.max_timestamp_offset(int(headers) if headers else None))

    def do_before(self, wanted: str) -> str:
        """Returns offsets before a time; `-1` for any."""
        return self.each(
            wanted,
            lambda time_ms: self.all_of(self.log.offsets_before(None if time_ms < 0 else time_ms)),
        )

    def do_epoch_ends(self, epochs: str) -> str:
        return self.each(epochs, self.log.end_offset_for_epoch)

    def do_aborted(self, start: str, end: str) -> str:
        found = self.log.aborted_transactions(int(start), int(end))
        return " ".join(":".join(map(str, row)) for row in found) or "none"

    def do_no_aborts(self, starts: str) -> str:
        return self.each(starts, self.log.has_no_aborts)

    def do_stable(self, watermarks: str) -> str:
        return self.each(watermarks, self.log.last_stable_offset)

    def do_producers(self) -> str:
        return described(self.log.producers)

    def each(self, text: str, ask: Callable[[int], object]) -> str:
        lines = []
        for number in numbers(text):
            try:
                answer = ask(number)
            except KafkaError as error:
                answer = f"{error.code.name}: {self.plain(error.message)}"
            except TakesLong:
                answer = "takes long"
            if isinstance(answer, tuple):
                answer = tuple(answer)
            calls = self.files.taken()
            lines.append(f"{number}: {answer}" + (f" ({', '.join(calls)})" if calls else ""))
        return "\n".join(lines)

    # Operations in steps

    @classmethod
    def all_of(cls, steps) -> str:
        done = [cls.next_of(steps)]
        while "ends with" not in done[-1]:
            done.append(cls.next_of(steps))
        return ", ".join(done)

    @staticmethod
    def next_of(steps) -> str:
        """Runs one step; if a batch must be searched, the step includes the search."""
        said = ""
        try:
            step = next(steps)
            said = str(step)
            if isinstance(step, CandidateBatch):
                said = f"{'small' if step.is_small else 'large'} batch at {step.position}, "
                said += str(steps.send(step.find()))
        except StopIteration as end:
            said += f"ends with {described(end.value)}"
        return said

    def do_begin(self, what: str, first: str = "0", second: str = "0") -> None:
        log = self.log
        self.steps[what] = {
            "timestamp": lambda: log.look_up_timestamp(int(first)),
            "max_timestamp": log.look_up_max_timestamp,
            "aborted": lambda: log.find_aborted(int(first), int(second)),
            "producers": log.load_producers,
            "rebuild": log.rebuild_lost,
            "dates": lambda: log.date_oldest(int(first), int(second)),
            "before": lambda: log.offsets_before(int(first)),
        }[what]()

    def do_go_on(self, what: str, times: str = "1") -> str:
        lines = []
        for _ in range(int(times)):
            lines.append(self.next_of(self.steps[what]))
            if "ends with" in lines[-1]:
                break
        return "\n".join(lines)

    def do_all(self, what: str) -> str:
        return self.all_of(self.steps[what])

    # Removal of records

    def do_truncate(self, offset: str) -> str:
        point = self.log.recovery_point_after(int(offset))
        calls = self.files.taken()
        self.log.truncate_to(int(offset))
        return f"recovery point {point} ({', '.join(calls)})"

    def do_empty(self, start: str) -> None:
        self.log.truncate_fully_and_start_at(int(start))

    def do_delete(self, before: str) -> None:
        self.log.delete_records_before(int(before))

    def do_retention(self, now: str, watermark: str, most: str = "") -> str:
        segments_max = int(most) if most else None
        return f"{self.log.apply_retention(int(now), int(watermark), segments_max)} segments go"

    def do_expire(self, now: str) -> str:
        return f"{self.log.remove_expired_producers(int(now))} were known"

    def do_purge(self, now: str = "") -> None:
        self.log.purge(int(now) if now else None)

    # Damage

    def path(self, name: str) -> Path:
        """Returns the path of a file: `42.log` is `00000000000000000042.log`."""
        stem, dot, suffix = name.partition(".")
        return self.directory / (f"{int(stem):020d}.{suffix}" if dot and stem.isdecimal() else name)

    def do_put(
        self, name: str, raw: str = "", text: str = "", entries: str = "", batches: str = ""
    ) -> None:
        data = bytes.fromhex(raw) + text.strip("()").replace("_", "\n").encode()
        for entry in entries.strip("()").split():
            data += LAYOUTS[self.path(name).suffix].pack(*map(int, entry.split(":")))
        self.path(name).write_bytes(data + (self.fetched(batches) if batches else b""))

    def do_add(self, name: str, zeros: str = "0", batches: str = "()", raw: str = "") -> None:
        with self.path(name).open("ab") as file:
            file.write(self.fetched(batches) + bytes(int(zeros)) + bytes.fromhex(raw))

    def do_cut(self, name: str, size: str) -> None:
        os.truncate(self.path(name), int(size))

    def do_flip(self, name: str, at: str) -> None:
        data = bytearray(self.path(name).read_bytes())
        data[int(at)] ^= 0x55
        self.path(name).write_bytes(data)

    def do_remove(self, names: str) -> None:
        for name in names.strip("()").split():
            self.path(name).unlink()

    def do_make_directory(self, name: str) -> None:
        self.path(name).unlink(missing_ok=True)
        self.path(name).mkdir()

    def do_written_at(self, name: str, ms: str) -> None:
        os.utime(self.path(name), ns=(int(ms) * 1_000_000,) * 2)

    def do_rename(self, name: str, to: str) -> None:
        self.path(name).rename(self.path(to))

    def do_release(self) -> None:
        self.log._segments.release()

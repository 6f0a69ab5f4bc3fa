"""Commands for transcripts of compaction, in addition to those of a log: records with keys, and rounds with everything
that they find, decide, read and write.
"""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

from tests.datadriven import Step
from tests.log.compaction.helpers import KEY
from tests.log.partitions.interaction import Interaction as LogInteraction
from trimaran.log.batches.batch import BatchView, TimestampType, iter_batches
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.compaction import batches, cleaning
from trimaran.log.compaction.cleaning import CleanerLimits, CleaningStopped, Round, Uncleanable
from trimaran.log.compaction.offset_map import SLOT_BYTES, OffsetMap
from trimaran.log.compaction.planning import dirt_of, plan_round
from trimaran.wire.errors import RemoteProtocolError


class Limits(CleanerLimits):
    """Records the number of offsets for which each map is requested."""

    asked = 0

    def offset_map(self, count: int, key: bytes) -> OffsetMap:
        type(self).asked = count
        return super().offset_map(count, key)


class Interaction(LogInteraction):
    """Records are written `key=value`; `-` is null."""

    def __init__(self, parent: Path) -> None:
        super().__init__(parent)
        self.round: Round | None = None
        self.cleaned: list[tuple[list, object]] = []
        self.pauses: list[int] = []
        self.stop_after = 1 << 60

    def answer(self, step: Step) -> str:
        small = (
            patch.object(batches, "RECORDS_AT_ONCE", 4),
            patch.object(cleaning, "BLOCK_BYTES", 300),
        )
        try:
            with small[0], small[1]:
                return super().answer(step)
        except (Uncleanable, CleaningStopped) as error:
            lines = [f"{type(error).__name__}: {self.plain(str(error))}", *self.files.taken()]
            return "\n".join(
                [*lines, *sorted(path.name for path in self.directory.glob("*.cleaned"))]
            )

    @staticmethod
    def content(path: Path) -> str:
        if path.suffix == ".log" or path.name.endswith(".log.cleaned"):
            views = iter_batches(memoryview(path.read_bytes()), allow_old=True)
            try:
                return "".join(f" [{described(view)}]" for view in views)
            except RemoteProtocolError:
                return " is damaged"
        return LogInteraction.content(path)

    def do_send(
        self,
        records: str,
        at: str = "1000",
        step: str = "1",
        codec: str = "NONE",
        producer: str = "",
        epoch: str = "0",
        sequence: str = "0",
        transactional: str = "no",
        append_time: str = "no",
        horizon: str = "",
    ) -> str:
        made = []
        for number, part in enumerate(records.strip("()").split()):
            key, _, value = part.partition("=")
            made.append(NewRecord(bytes_of(key), bytes_of(value), int(at) + number * int(step)))
        fields: dict[str, object] = {"compression": Compression[codec]}
        if producer:
            fields |= {
                "producer_id": int(producer),
                "producer_epoch": int(epoch),
                "base_sequence": int(sequence),
                "is_transactional": transactional == "yes",
            }
        if append_time == "yes":
            fields["timestamp_type"] = TimestampType.LOG_APPEND_TIME
        return self.written(bytearray(build_batch(made, **fields)))

    def do_dirt(self, cleaned_to: str = "", watermark: str = "", now: str = "0") -> str:
        found = self.dirt(cleaned_to, watermark, now)
        return f"{tuple(found)}, ratio {found.ratio}, due: {found.is_due(self.config)}"

    def dirt(self, cleaned_to: str = "", watermark: str = "", now: str = "0"):
        return dirt_of(
            self.log,
            cleaned_to=int(cleaned_to) if cleaned_to else None,
            high_watermark=int(watermark or self.log.log_end_offset),
            now_ms=int(now),
        )

    def pause(self, size: int) -> None:
        self.pauses.append(size)
        if len(self.pauses) > self.stop_after:
            raise CleaningStopped("enough")

    def do_plan(self, now: str = "0", slots: str = "1000", **options: str) -> str:
        self.pauses.clear()
        limits = Limits(int(slots) * SLOT_BYTES)
        self.round = plan_round(
            self.log,
            self.dirt(now=now, **options),
            limits=limits,
            map_key=KEY,
            now_ms=int(now),
            pause=self.pause,
        )
        sources = [
            f"{source.base_offset}-{source.next_base_offset}:{source.size}"
            for source in self.round.sources
        ]
        retention = self.round.retention
        return (
            f"{' '.join(sources)} from {self.round.first_dirty_offset} to {retention.end_offset}, horizon "
            f"{retention.delete_horizon_ms}, a map of {limits.asked} offsets, "
            f"aborted {[tuple(transaction) for transaction in self.round.aborted]}\n"
            f"{[(producer, *last_record) for producer, last_record in retention.last_records.items()]}"
        )

    def do_map(self) -> str:
        end = self.round.build_map()
        self.end = end
        groups = [[batch.base_offset for batch in group] for group in self.round.groups(end)]
        keys = "".join(
            f" {chr(97 + n)}:{at}"
            for n in range(26)
            if (at := self.round.offsets.get(b"%c" % (97 + n))) >= 0
        )
        return f"up to {end}, newest{keys}, groups {groups}, read {self.round.bytes_read}, pauses {self.pauses}"

    def do_clean(self) -> str:
        for sources in self.round.groups(self.end):
            self.cleaned.append((sources, self.round.clean(sources)))
        return f"read {self.round.bytes_read}, written {self.round.bytes_written}, pauses {self.pauses}"

    def do_replace(self) -> str:
        replaced = [
            self.log.replace_segments([source.segment for source in sources], cleaned)
            for sources, cleaned in self.cleaned
        ]
        self.cleaned.clear()
        self.log.purge()
        return str(replaced)

    def do_discard(self) -> None:
        for _, cleaned in self.cleaned:
            self.round.discard(cleaned)
        self.cleaned.clear()

    def do_compact(self, **options: str) -> str:
        """Runs a whole round and shows only its result."""
        self.do_plan(**options)
        self.do_map()
        self.do_clean()
        self.files.taken()
        return self.do_replace()

    def do_stop(self, after: str) -> None:
        self.stop_after = int(after)


def bytes_of(text: str) -> bytes | None:
    return None if text == "-" else text.encode()


def described(view: BatchView) -> str:
    words = [f"{view.base_offset}-{view.last_offset}"]
    if view.is_control:
        words.append(
            f"marker of {view.producer_id}/{view.producer_epoch}"
            + ("" if view.count else " emptied")
        )
    elif view.count:
        words += [
            f"{(record.key or b'-').decode()}={'-' if record.value is None else record.value.decode()}"
            f"@{record.offset}/{record.timestamp_ms}"
            for record in decode_records(view)
        ]
    else:
        words.append("emptied")
    words.append(f"{view.base_timestamp}..{view.max_timestamp}")
    if view.delete_horizon_ms is not None:
        words.append("horizon")
    if view.compression is not Compression.NONE:
        words.append(view.compression.name)
    if view.timestamp_type is TimestampType.LOG_APPEND_TIME:
        words.append("appended")
    if view.producer_id >= 0 and not view.is_control:
        words.append(f"of {view.producer_id}/{view.producer_epoch}/{view.base_sequence}")
    return " ".join(words)

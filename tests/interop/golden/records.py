"""Compares record batches and message sets of Apache Kafka's `MemoryRecords` and ours: each side builds them, and reads
those of the other. A pair is one format with one compression and one kind of batch. Uncompressed bytes must be equal.
Compacted batches have gaps in their offsets and, in v2, a delete horizon; only Kafka builds those of v2 here.
"""

import base64
import zlib
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from tests.interop.golden.messages import Outcome, text_of
from tests.interop.golden.oracle import Oracle
from trimaran.log.batches.batch import BatchView, TimestampType, has_valid_crc, iter_batches
from trimaran.log.batches.columns import Columns, decode_columns
from trimaran.log.batches.records import NewRecord, Record, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.old_formats.down_conversion import down_convert
from trimaran.log.old_formats.message_sets import (
    build_message_set,
    decode_message_set,
    iter_messages,
)
from trimaran.wire.identity import NO_TIMESTAMP
from trimaran.wire.messages.control import (
    ControlType,
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    encode_control_key,
    encode_control_value,
)

APPEND_TIME_MS = 1_700_000_000_123
DELETE_HORIZON_MS = 1_700_000_086_400
KINDS = {
    0: ("create time", "compacted"),
    1: ("create time", "append time", "compacted"),
    2: ("create time", "append time", "idempotent", "transactional", "control", "compacted"),
}
CODECS = {
    0: (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4),
    1: (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4),
    2: tuple(Compression),
}
# Values of the last sample, which exceed the block size of every codec (64 KB in lz4, 32 KB in snappy).
LARGE_BYTES = 100_000


class Batch(NamedTuple):
    """A batch that both sides build."""

    magic: int
    compression: Compression
    kind: str
    base_offset: int
    leader_epoch: int
    producer: tuple[int, int, int]
    records: list[Record]

    @property
    def append_time_ms(self) -> int | None:
        return APPEND_TIME_MS if self.kind == "append time" else None

    @property
    def delete_horizon_ms(self) -> int:
        is_set = self.magic == 2 and self.kind == "compacted"
        return DELETE_HORIZON_MS if is_set else NO_TIMESTAMP

    @property
    def expected(self) -> list[dict]:
        """Returns the records as any reader must see them."""
        shown = []
        for record in self.records:
            stamp = NO_TIMESTAMP if self.magic == 0 else self.append_time_ms or record.timestamp_ms
            shown.append(record_json(record._replace(timestamp_ms=stamp)))
        return shown

    def question(self) -> dict:
        producer_id, producer_epoch, base_sequence = self.producer
        return {
            "op": "build",
            "magic": self.magic,
            "compression": self.compression.name.lower(),
            "timestamp_type": "CreateTime" if self.append_time_ms is None else "LogAppendTime",
            "base_offset": self.base_offset,
            "log_append_time": self.append_time_ms or NO_TIMESTAMP,
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": base_sequence,
            "is_transactional": self.is_transactional,
            "is_control": self.kind == "control",
            "leader_epoch": self.leader_epoch,
            "delete_horizon_ms": self.delete_horizon_ms,
            "records": [record_json(record) for record in self.records],
        }

    @property
    def is_transactional(self) -> bool:
        return self.kind in ("transactional", "control")

    def build(self) -> bytes | None:
        """Returns our bytes; None for a batch that only the cleaner creates."""
        if self.delete_horizon_ms != NO_TIMESTAMP:
            return None
        if self.magic < 2:
            return build_message_set(
                self.records,
                magic=self.magic,
                compression=self.compression,
                append_time_ms=self.append_time_ms,
            )
        producer_id, producer_epoch, base_sequence = self.producer
        made = bytearray(
            build_batch(
                [NewRecord(r.key, r.value, r.timestamp_ms, r.headers) for r in self.records],
                base_offset=self.base_offset,
                leader_epoch=self.leader_epoch,
                compression=self.compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                is_control=self.kind == "control",
                is_transactional=self.is_transactional,
            )
        )
        if self.append_time_ms is not None:
            BatchView(made).stamp_append_time(self.append_time_ms)
        return bytes(made)


def record_json(record: Record) -> dict:
    def text(data: bytes | None) -> str | None:
        return None if data is None else text_of(data)

    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[key, text(value)] for key, value in record.headers],
    }


def random_batch(magic: int, compression: Compression, kind: str, seed: int) -> Batch:
    rng = Random(zlib.crc32(f"{magic} {compression} {kind} {seed}".encode()))
    base_offset = rng.choice((0, 1, 5, 2**31 - 1, 2**40, 2**62)) if seed else 0
    start = rng.choice((0, 1_600_000_000_000, 2**55)) if magic else NO_TIMESTAMP
    count = 1 if kind == "control" else rng.choice((1, 2, 7, 150))
    producer = (-1, -1, -1)
    if kind in ("idempotent", "transactional"):
        producer = (rng.randrange(2**63), rng.randrange(2**15), rng.choice((0, 5, 2**31 - 3)))
    elif kind == "control":
        producer = (rng.randrange(2**63), rng.randrange(2**15), -1)
    records = []
    offset = base_offset
    for i in range(count):
        key, value = content(rng), content(rng)
        if kind == "control":
            key, value = control(rng)
        elif seed == 1 and i == 0:
            value = rng.randbytes(LARGE_BYTES) + bytes(LARGE_BYTES)
        stamp = start + rng.choice((0, 1, 1000, 2**33)) if magic else NO_TIMESTAMP
        headers = random_headers(rng) if magic == 2 and kind != "control" else ()
        records.append(Record(offset, stamp, key, value, headers))
        offset += rng.randint(1, 40) if kind == "compacted" else 1
    epoch = rng.choice((-1, 0, 7, 2**31 - 1)) if magic == 2 else -1
    return Batch(magic, compression, kind, base_offset, epoch, producer, records)


def content(rng: Random) -> bytes | None:
    size = rng.choice((None, 0, 1, 10, 63, 64, 127, 128, 1000))
    return None if size is None else rng.choice((rng.randbytes(size), b"a" * size))


def random_headers(rng: Random) -> tuple[tuple[str, bytes | None], ...]:
    names = ("", "h", "h", "größer \U0001f600", "x" * 200)
    return tuple((rng.choice(names), content(rng)) for _ in range(rng.choice((0, 0, 1, 3, 70))))


def control(rng: Random) -> tuple[bytes, bytes]:
    """Returns one of the control records that Kafka's own builder accepts."""
    voter = LeaderChangeMessageVoter(voter_id=3)
    kind, value = rng.choice(
        (
            (ControlType.COMMIT, EndTxnMarker(coordinator_epoch=rng.randrange(2**31))),
            (ControlType.ABORT, EndTxnMarker(coordinator_epoch=0)),
            (
                ControlType.LEADER_CHANGE,
                LeaderChangeMessage(
                    version=0, leader_id=3, voters=[voter], granting_voters=[voter]
                ),
            ),
            (
                ControlType.SNAPSHOT_HEADER,
                SnapshotHeaderRecord(version=0, last_contained_log_timestamp=7),
            ),
            (ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=0)),
            (ControlType.KRAFT_VERSION, KRaftVersionRecord(version=0, kraft_version=1)),
            (ControlType.KRAFT_VOTERS, VotersRecord(version=0, voters=[])),
        )
    )
    return encode_control_key(kind), encode_control_value(value, 0)


def check_records(oracle: Oracle, count: int) -> Iterator[Outcome]:
    for magic, kinds in KINDS.items():
        for compression in CODECS[magic]:
            for kind in kinds:
                label = f"v{magic} {compression.name.lower()} {kind}"
                batches = [random_batch(magic, compression, kind, seed) for seed in range(count)]
                yield Outcome("record batches", label, check_batches(oracle, batches))


def check_down_conversion(oracle: Oracle, count: int) -> Iterator[Outcome]:
    """Checks v2 batches as converted for consumers that know only message sets, as in brokers before 4.0."""
    for magic in (0, 1):
        for compression in CODECS[magic]:
            for kind in ("create time", "append time", "idempotent", "transactional"):
                label = f"v2 to v{magic} {compression.name.lower()} {kind}"
                batches = [random_batch(2, compression, kind, seed) for seed in range(count)]
                failure = check_conversions(oracle, batches, magic)
                yield Outcome("down-conversion", label, failure)


def check_conversions(oracle: Oracle, batches: list[Batch], magic: int) -> str | None:
    cases = [
        (batch, batch.build(), first_offset)
        for batch in batches
        for first_offset in (batch.base_offset, batch.records[-1].offset)
    ]
    questions = [
        {"op": "down_convert", "bytes": text_of(data), "magic": magic, "first_offset": first_offset}
        for _, data, first_offset in cases
    ]
    for (batch, data, first_offset), answer in zip(cases, oracle.ask(questions), strict=True):
        if "error" in answer:
            return f"Kafka does not convert it ({answer['error']}): {batch!r:.1000}"
        theirs, ours = base64.b64decode(answer["bytes"]), down_convert(data, magic, first_offset)
        is_same = theirs == ours
        if batch.compression is not Compression.NONE:
            is_same = decode_message_set(theirs) == decode_message_set(ours)
        if not is_same:
            return f"from {first_offset} Kafka makes {theirs.hex()}, we make {ours.hex()}: {batch!r:.1000}"
    return None


def check_batches(oracle: Oracle, batches: list[Batch]) -> str | None:
    ours = [batch.build() for batch in batches]
    built = oracle.ask([batch.question() for batch in batches])
    for batch, mine, answer in zip(batches, ours, built, strict=True):
        if "error" in answer:
            return f"Kafka refuses to build it ({answer['error']}): {batch!r:.1000}"
        theirs = base64.b64decode(answer["bytes"])
        if mine is not None and batch.compression is Compression.NONE and theirs != mine:
            return f"Kafka writes {theirs.hex()}, we write {mine.hex()}: {batch!r:.1000}"
        failure = our_reading(batch, theirs)
        if failure:
            return f"{failure}: {batch!r:.1000}"
    both = [(batch, mine) for batch, mine in zip(batches, ours, strict=True) if mine is not None]
    read = oracle.ask([{"op": "read", "bytes": text_of(mine)} for _, mine in both])
    for (batch, mine), answer in zip(both, read, strict=True):
        failure = answer.get("error") or kafkas_reading(batch, mine, answer["batches"])
        if failure:
            return f"Kafka reads {failure!s:.1000}: {batch!r:.1000}"
    return None


def our_reading(batch: Batch, data: bytes) -> str | None:
    """Returns the differences that we find in a batch built by Kafka."""
    if batch.magic < 2:
        found = decode_message_set(data)
    else:
        (view,) = iter_batches(data)
        if not has_valid_crc(view):
            return "we find a wrong CRC"
        found = decode_records(view)
        columns = decode_columns([view])
        if any(columns_row(columns, row) != record[:4] for row, record in enumerate(found)):
            return "our bulk decoder reads other records"
        if header_json(view) != header_of(batch):
            return f"we read the header {header_json(view)}"
    shown = [record_json(record) for record in found]
    return None if shown == batch.expected else f"we read {shown!r:.1000}"


def columns_row(columns: Columns, row: int) -> tuple[int, int, bytes | None, bytes | None]:
    stamp = columns.timestamp_ms[row]
    return columns.offset[row], stamp, columns.key(row), columns.value(row)


def header_of(batch: Batch) -> dict:
    producer_id, producer_epoch, base_sequence = batch.producer
    last_delta = batch.records[-1].offset - batch.base_offset
    stamps = [r["timestamp_ms"] for r in batch.expected]
    last_sequence = (base_sequence + last_delta) % 2**31 if base_sequence >= 0 else -1
    return {
        "magic": batch.magic,
        "compression": batch.compression.name.lower(),
        "timestamp_type": "CreateTime" if batch.append_time_ms is None else "LogAppendTime",
        "base_offset": batch.base_offset,
        "last_offset": batch.base_offset + last_delta,
        "next_offset": batch.base_offset + last_delta + 1,
        "max_timestamp": max(stamps),
        "count": len(batch.records),
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "base_sequence": base_sequence,
        "last_sequence": last_sequence,
        "leader_epoch": batch.leader_epoch,
        "is_transactional": batch.is_transactional,
        "is_control": batch.kind == "control",
        "delete_horizon_ms": batch.delete_horizon_ms,
    }


def header_json(view: BatchView) -> dict:
    append_time = view.timestamp_type is TimestampType.LOG_APPEND_TIME
    horizon = view.delete_horizon_ms
    return {
        "magic": view.magic,
        "compression": view.compression.name.lower(),
        "timestamp_type": "LogAppendTime" if append_time else "CreateTime",
        "base_offset": view.base_offset,
        "last_offset": view.last_offset,
        "next_offset": view.next_offset,
        "max_timestamp": view.max_timestamp,
        "count": view.count,
        "producer_id": view.producer_id,
        "producer_epoch": view.producer_epoch,
        "base_sequence": view.base_sequence,
        "last_sequence": view.last_sequence,
        "leader_epoch": view.leader_epoch,
        "is_transactional": view.is_transactional,
        "is_control": view.is_control,
        "delete_horizon_ms": NO_TIMESTAMP if horizon is None else horizon,
    }


def kafkas_reading(batch: Batch, data: bytes, found: list[dict]) -> str | None:
    """Returns the differences that Kafka finds in our batch. Kafka reads an uncompressed message as a batch."""
    records = [record for read in found for record in read["records"]]
    if records != batch.expected:
        return repr(records)
    if batch.magic == 2:
        (one,) = found
        expected = header_of(batch) | {"size": len(data), "crc": BatchView(data).crc}
        if {name: one[name] for name in expected} != expected:
            return repr(one)
    elif len(found) != sum(1 for _ in iter_messages(data)):
        return f"{len(found)} batches"
    return None

"""One log, damaged at every byte of its last batches: above the recovery point it is truncated at the damage, below it
no file gets shorter (mD1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.log.crash.life import Batch, read_batches
from tests.log.helpers import batch_bytes, fill, open_log
from trimaran.log.config import LogConfig
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.wire.errors import ErrorCode, KafkaError

CONFIG = LogConfig(index_interval_bytes=200, retention_ms=-1)
BATCHES = 12
DAMAGED = 3  # damaged batches on either side of the recovery point


class Damage(NamedTuple):
    kind: str
    position: int
    data: bytes


class Subject(NamedTuple):
    """A log whose first half is flushed."""

    path: Path
    data: bytes
    batches: list[Batch]
    recovery_point: int


def make_subject(root: Path) -> Subject:
    log = fill(open_log(root / "t-0", CONFIG), BATCHES // 2)
    point = log.flush()
    fill(log, BATCHES // 2, epoch=1)
    batches = read_batches(log)
    log.close(clean=False)
    [path] = log.directory.glob("*.log")
    return Subject(path, path.read_bytes(), batches, point)


def damages(data: bytes, start: int, end: int, stride: int) -> Iterator[Damage]:
    """Damages the bytes [start, end)."""
    stale = bytes(batch_bytes(2, value=b"of another file"))
    block = data[: max(1, (end - start) // 2)]  # an earlier block of the same file
    for at in range(start, end, stride):
        yield Damage("cut", at, data[:at])
        for bit in (0x01, 0x80, 0xFF):
            yield Damage("flip", at, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        yield Damage("zeros", at, data[:at] + bytes(end - at) + data[end:])
        yield Damage("stale block", at, (data[:at] + stale)[:end] + data[end:])
        yield Damage("repeated block", at, (data[:at] + block)[:end] + data[end:])
    if end == len(data):
        yield Damage("repeated tail", end, data + data[start:])
        yield Damage("zeros behind", end, data + bytes(4096))
        yield Damage("another's behind", end, data + stale)


def try_damages(root: Path, *, stride: int = 1) -> tuple[Counter[str], list[str]]:
    """Returns the number of tried damages by kind, and the violations."""
    tried: Counter[str] = Counter()
    failures = []
    subject = make_subject(root)
    flushed = sum(len(b.data) for b in subject.batches if b.last_offset < subject.recovery_point)
    each = len(subject.data) // BATCHES
    places = [
        ("unflushed", len(subject.data) - DAMAGED * each, len(subject.data)),
        ("flushed", flushed - DAMAGED * each, flushed),
    ]
    for place, start, end in places:
        for damage in damages(subject.data, start, end, stride):
            tried[f"{damage.kind}, {place}"] += 1
            subject.path.write_bytes(damage.data)
            problem = _judge(subject, damage, is_flushed=place == "flushed")
            if problem:
                failures.append(f"{damage.kind} at {damage.position}, {place}: {problem}")
    return tried, failures


def _judge(subject: Subject, damage: Damage, *, is_flushed: bool) -> str | None:
    try:
        log = open_log(subject.path.parent, CONFIG, recovery_point=subject.recovery_point)
    except KafkaError as error:
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or subject.path.parent.name not in str(
            error
        ):
            return f"refused without its name: {error}"
        if subject.path.read_bytes() != damage.data:
            return "refused, and changed"
        return None if is_flushed else f"refused: {error}"
    try:
        return _judge_opened(subject, damage, log, is_flushed=is_flushed)
    finally:
        log.close(clean=False)


def _judge_opened(
    subject: Subject, damage: Damage, log: PartitionLog, *, is_flushed: bool
) -> str | None:
    if log.log_end_offset < subject.recovery_point:
        return f"ends at {log.log_end_offset}, {subject.recovery_point} were flushed"
    if is_flushed:
        same = subject.path.read_bytes()[: damage.position] == damage.data[: damage.position]
        return None if same else "changed"
    positions = _positions(subject.batches)
    first = sum(
        position + len(b.data) <= damage.position
        for position, b in zip(positions, subject.batches, strict=True)
    )
    expected = subject.batches[:first]
    found = read_batches(log)
    if damage.kind == "flip" and first < len(positions):
        within = damage.position - positions[first]
        if within < 8 or 12 <= within < 16:  # the CRC does not cover base offset and leader epoch
            found = found[:first]
    if damage.kind in ("stale block", "repeated block", "cut", "zeros"):
        # the new bytes may happen to equal the old ones
        expected = [
            b
            for n, b in enumerate(subject.batches)
            if n < first or damage.data[positions[n] :].startswith(b.data)
        ]
        expected = expected[
            : next((n for n, b in enumerate(expected) if b != subject.batches[n]), None)
        ]
    if found != expected:
        return f"{len(found)} batches, {len(expected)} are intact"
    return None


def _positions(batches: list[Batch]) -> list[int]:
    return [sum(len(b.data) for b in batches[:number]) for number in range(len(batches))]

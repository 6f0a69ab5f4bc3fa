"""Refuses a metadata log of a later Kafka version: a member of a quorum must know every finalized feature level.

A voter at an unknown level would lead with an image that lacks the content of newer records; a broker would serve with
it. Therefore both check before they take part: at start, the content of the directory before anything is opened; then
each appended batch, committed or not. Uncommitted records are also checked, because a voter that has them may be
elected and commit them. Observers without a log skip unknown records (`UnknownRecord`). Source: Kafka's
`FeatureControlManager.replay`, `KRaftVersion.fromFeatureLevel`, which check when the record is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from trimaran.log.batches.batch import BatchView, iter_batches
from trimaran.log.batches.control_records import read_control_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.disk.files import REAL_FILES
from trimaran.log.inspection.reader import list_segments, scan_batches
from trimaran.quorum.metadata.features import newest_known
from trimaran.quorum.metadata.versions import KRAFT_VERSION, METADATA_VERSION, release_name
from trimaran.quorum.raft_log.record_batches import metadata_values
from trimaran.quorum.raft_log.snapshot_files import parse_snapshot_name, snapshot_name
from trimaran.wire.errors import KafkaError, RemoteProtocolError
from trimaran.wire.messages.control import KRaftVersionRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import FRAME_VERSION, UnknownRecord, read_metadata_record

# The first bytes of each encoded level. In a batch without these bytes no record is decoded.
_FRAME = bytes([FRAME_VERSION, FeatureLevelRecord.KEY, 0])


class MetadataTooNew(Exception):
    """The metadata log needs a later version of trimaran. The directory is intact and stays unchanged."""


def check_levels(batch: BatchView, where: object) -> None:
    """Checks the feature levels that a whole batch finalizes; `where` names the log in the error.

    Raises:
        MetadataTooNew: a level is above ours.
        RemoteProtocolError, KafkaError: the batch is malformed.
    """
    for name, level, offset in _levels(batch):
        ours = newest_known(name)
        if level > ours:
            raise MetadataTooNew(
                f"{name} is {_named(name, level)} at offset {offset} of {where}, and this version of trimaran knows "
                f"{name} up to {_named(name, ours)}"
            )


def refuse_unknown(record: UnknownRecord, where: object) -> MetadataTooNew:
    """Returns the error for a record that does not belong to any finalized level."""
    return MetadataTooNew(
        f"a metadata record of {record} of {where} belongs to a later Kafka, and this version of trimaran does not "
        f"know it; it knows {METADATA_VERSION} up to {_named(METADATA_VERSION, newest_known(METADATA_VERSION))}"
    )


def _named(name: str, level: int) -> str:
    release = release_name(level)
    is_named = name == METADATA_VERSION and release != str(level)
    return f"{level} ({release})" if is_named else str(level)


def _levels(batch: BatchView) -> Iterator[tuple[str, int, int]]:
    """Yields feature, level and offset."""
    if batch.is_control:
        for control in read_control_records(batch):
            if isinstance(control.value, KRaftVersionRecord):
                yield KRAFT_VERSION, control.value.kraft_version, control.offset
        return
    is_plain = batch.compression is Compression.NONE
    if is_plain and _FRAME not in bytes(batch.buffer):
        return
    for offset, value in enumerate(metadata_values(batch), batch.base_offset):
        if value[:2] == _FRAME[:2]:
            record = read_metadata_record(value)
            # Kafka keeps kraft.version in control records, and ignores a FeatureLevelRecord with it.
            if isinstance(record, FeatureLevelRecord) and record.name != KRAFT_VERSION:
                yield record.name, record.feature_level, offset


def check_directory(directory: Path, bootstrap: Path) -> None:
    """Checks a metadata log on disk without changing it: its newest snapshot, the log after it with its
    uncommitted end, or `bootstrap`, with which an empty log begins. Blocks. The code that opens the log handles damage.

    Raises:
        MetadataTooNew: see `check_levels`.
    """
    with suppress(OSError):
        _check_directory(directory, bootstrap)


def _check_directory(directory: Path, bootstrap: Path) -> None:
    try:
        names = REAL_FILES.list_directory(directory)
    except FileNotFoundError:
        names = []
    latest = max(
        (snapshot for snapshot in map(parse_snapshot_name, names) if snapshot is not None),
        default=None,
    )
    begin = 0 if latest is None else latest.offset
    if latest is not None:
        _check(directory / snapshot_name(latest), _batches_of(directory / snapshot_name(latest)))
    is_empty = begin == 0
    for segment in list_segments(directory) if names else ():
        found = (batch for _, batch in scan_batches(segment.path) if batch.base_offset >= begin)
        is_empty = not _check(Path(segment.path), found) and is_empty
    if is_empty and bootstrap.exists():
        _check(bootstrap, _batches_of(bootstrap))


def _batches_of(path: Path) -> Iterator[BatchView]:
    yield from iter_batches(memoryview(REAL_FILES.read_bytes(path)))


def _check(path: Path, batches: Iterator[BatchView]) -> bool:
    """Returns whether there was a batch of metadata records."""
    is_any = False
    try:
        for batch in batches:
            check_levels(batch, path)
            is_any = is_any or not batch.is_control
    except (RemoteProtocolError, KafkaError):
        return True
    return is_any

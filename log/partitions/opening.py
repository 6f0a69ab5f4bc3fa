"""Loading of a partition's directory into segments and consistent leader epochs.

Source: Kafka's `LogLoader.load`. The checks that truncate or refuse are in `log/segments/recovery.py`.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from pathlib import Path
from typing import NamedTuple

from trimaran.log.batches.batch import BatchView
from trimaran.log.config import LogConfig
from trimaran.log.disk.checkpoints import LOG_START_OFFSETS
from trimaran.log.disk.files import Files
from trimaran.log.disk.leader_epochs import LeaderEpochs
from trimaran.log.disk.small_file import FileDamaged
from trimaran.log.producers.snapshots import remove_snapshots
from trimaran.log.segments.recovery import list_segments, recover_segment
from trimaran.log.segments.scan import scan_headers
from trimaran.log.segments.segment import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    Segment,
    SegmentDamaged,
)
from trimaran.wire.identity import NO_OFFSET, Offset
from trimaran.wire.text import events

log = logging.getLogger(__name__)

LOG_START = Offset(0)


class LastRun(NamedTuple):
    """The facts about a log that the last process stored in the files of the log directory.

    Every offset below `recovery_point` was flushed: only records above it may be cut. After a `clean_shutdown` all
    records were flushed, and only the end is checked. The log starts at `log_start_offset`, or at its first segment if
    that is higher. Below `cleaned_to` compaction may have left gaps between segments.
    """

    clean_shutdown: bool
    recovery_point: Offset = LOG_START
    log_start_offset: Offset = LOG_START
    cleaned_to: int = 0


def load_log(
    directory: Path, config: LogConfig, files: Files, last_run: LastRun
) -> tuple[list[Segment], LeaderEpochs]:
    """Returns the segments, with the last one ready for appending, and their epochs.

    Raises:
        SegmentDamaged: flushed records are missing or damaged.
        OSError
    """
    clean_shutdown, recovery_point, log_start_offset, cleaned_to = last_run
    segments = list_segments(directory, files)
    if not segments:
        if recovery_point > log_start_offset:
            raise SegmentDamaged(
                f"{directory} has no segments, {recovery_point} offsets were flushed"
            )
        segments = [Segment(directory, log_start_offset, files, size=0, created=True)]
    epochs = _read_epochs(directory, files)
    if clean_shutdown:
        _load_after_clean_shutdown(segments[-1], config)
    else:
        found = LeaderEpochs() if epochs is None else epochs
        _recover(segments, config, recovery_point, cleaned_to, found, files)
    end_offset = segments[-1].next_offset
    if not clean_shutdown and end_offset < recovery_point:
        raise SegmentDamaged(
            f"{directory} ends at {end_offset}, {recovery_point} offsets were flushed"
        )
    if clean_shutdown and end_offset < log_start_offset:
        # Only a crash can remove records after the log's start. After a clean shutdown the start is wrong, or the
        # records are lost.
        raise SegmentDamaged(
            f"{directory} ends at {end_offset}, and starts at {log_start_offset} by {LOG_START_OFFSETS}"
        )
    if end_offset < log_start_offset:
        segments = _restart_log(segments, log_start_offset, files)
        end_offset = log_start_offset
    start_offset = max(log_start_offset, segments[0].base_offset)
    if (
        epochs is None
        or not _knows_end(epochs, segments[-1])
        or not _knows_start(epochs, segments, start_offset)
    ):
        epochs = _epochs_of(segments, files)
    epochs.truncate_from_start(start_offset)
    # Checked last: an empty log has no epochs, even if it was not recorded that the log was emptied.
    epochs.truncate_from_end(end_offset)
    return segments, epochs


def _load_after_clean_shutdown(active: Segment, config: LogConfig) -> None:
    if not active.exists:
        return
    reached = active.load_tail(config.index_interval_bytes, is_clean=True)
    if reached != active.size:
        raise SegmentDamaged(
            f"{active.path(LOG_SUFFIX)}: no valid batch at position {reached} of {active.size}, after a clean shutdown"
        )


def _recover(
    segments: list[Segment],
    config: LogConfig,
    recovery_point: Offset,
    cleaned_to: int,
    epochs: LeaderEpochs,
    files: Files,
) -> None:
    """Checks all segments that extend beyond the recovery point; those after a cut or a hole are removed.

    Compaction also leaves holes, but only in the flushed part: below the recovery point, or below the `cleaned_to` of a
    log written by Kafka.
    """

    def note(view: BatchView) -> None:
        if view.leader_epoch > epochs.latest_epoch:
            epochs.assign(view.leader_epoch, view.base_offset)

    bases = [segment.base_offset for segment in segments]
    # The segment that ends at the recovery point is included: a crash may have undone a truncation to that point.
    first = max(0, bisect_right(bases, recovery_point - 1) - 1)
    # The batches take precedence; the file may be older than a cut.
    epochs.truncate_from_end(recovery_point)
    keep = first
    for segment in segments[first:]:
        before = segments[keep - 1].next_offset if keep > first else segment.base_offset
        has_hole = segment.base_offset > max(before, recovery_point, cleaned_to)
        if segment.base_offset < before or has_hole:
            break
        keep += 1
        if not segment.exists:
            continue
        cut = recover_segment(
            segment,
            recovery_point=recovery_point,
            index_interval=config.index_interval_bytes,
            note=note,
        )
        if cut:
            break
    for segment in segments[keep:]:
        events.LOG_SEGMENT_DROPPED.log(log, file=segment.path(LOG_SUFFIX))
        _remove(segment, files)
    del segments[keep:]
    for segment in segments[first:]:
        segment.transaction_index.truncate_to(recovery_point)
    # Later snapshots are removed, so that the aborts above it are read and indexed again, or all aborts if an index was
    # damaged.
    remove_snapshots(segments[0].directory, files, above=recovery_point)
    if any(segment.transaction_index.lacks_entries for segment in segments):
        remove_snapshots(segments[0].directory, files, above=NO_OFFSET)


def _restart_log(segments: list[Segment], start_offset: Offset, files: Files) -> list[Segment]:
    """Empties the log. The checkpointed start is beyond the end, because a crash removed the records there: the
    remaining records had been deleted, and no records may follow them.
    """
    directory = segments[0].directory
    events.LOG_BEGINS_ANEW.log(
        log, directory=directory, end_offset=segments[-1].next_offset, start_offset=start_offset
    )
    for segment in segments:
        _remove(segment, files)
    remove_snapshots(directory, files, above=NO_OFFSET)
    return [Segment(directory, start_offset, files, size=0, created=True)]


def _remove(segment: Segment, files: Files) -> None:
    segment.release()
    for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX):
        files.unlink(segment.path(suffix))


def _read_epochs(directory: Path, files: Files) -> LeaderEpochs | None:
    """Returns the epochs in the file; None if it is missing or damaged: they are then read from the log."""
    try:
        return LeaderEpochs.read(directory, files)
    except FileDamaged as damage:
        events.LOG_DIRECTORY_FILE_DAMAGED.log(log, error=damage)
        return None


def _knows_start(epochs: LeaderEpochs, segments: list[Segment], start_offset: Offset) -> bool:
    """Whether the epochs cover the log's start. After a crash the log may start below the epochs in the file, because
    deletions that were not checkpointed are undone. Segments below the start may still exist.
    """
    if epochs.epoch_for(start_offset) >= 0:
        return True
    bases = [segment.base_offset for segment in segments]
    for segment in segments[max(0, bisect_right(bases, start_offset) - 1) :]:
        if not segment.exists:
            continue
        for _, view in scan_headers(segment.files, segment.file, 0, segment.size):
            if view.last_offset >= start_offset:
                return view.leader_epoch < 0 or epochs.epoch_for(view.base_offset) >= 0
    return True


def _knows_end(epochs: LeaderEpochs, active: Segment) -> bool:
    """Whether the epochs include that of the last batch; the epochs in an old copy of the file do not."""
    if active.last_epoch is None or active.last_epoch < 0:
        return True
    return epochs.epoch_for(active.next_offset - 1) == active.last_epoch


def _epochs_of(segments: list[Segment], files: Files) -> LeaderEpochs:
    epochs = LeaderEpochs()
    for segment in segments:
        if not segment.exists:
            continue
        for _, view in scan_headers(files, segment.file, 0, segment.size):
            if view.leader_epoch > epochs.latest_epoch:
                epochs.assign(view.leader_epoch, view.base_offset)
        if segment is not segments[-1]:
            segment.release()
    epochs.version += 1
    return epochs

"""Producer snapshots of a partition's directory: written at roll and clean shutdown, read back with the log's tail.

Source: Kafka's `ProducerStateManager` (`takeSnapshot`, `truncateAndReload`) and `UnifiedLog.rebuildProducerState`. A snapshot
named after offset N holds the state of all batches below N. A damaged one is passed over for the one before it.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from log.batch import BatchView
from log.files import Files
from log.producers import CONTROL_BATCH_BYTES_MAX, ProducerState
from log.recovery import list_snapshots
from log.scan import read_batch, scan_headers
from log.segment import SNAPSHOT_SUFFIX, Segment, file_name


def write_snapshot(
    directory: Path, state: ProducerState, files: Files, *, durable: bool = False
) -> None:
    """Writes the state under its end offset; `durable` fsyncs it. Raises OSError."""
    file = files.open(directory / file_name(state.end_offset, SNAPSHOT_SUFFIX), create=True)
    data = state.format_snapshot()
    files.truncate(file, 0)
    files.pwrite(file, data, 0)
    if durable:
        files.fdatasync(file)


def remove_snapshots(
    directory: Path, files: Files, *, above: int | None = None, below: int | None = None
) -> None:
    """Removes snapshots of offsets over `above`, and those under `below` except the newest of them."""
    offsets = list_snapshots(directory, files)
    gone = [offset for offset in offsets if above is not None and offset > above]
    if below is not None:
        gone += [offset for offset in offsets if offset < below][:-1]
    for offset in gone:
        files.unlink(directory / file_name(offset, SNAPSHOT_SUFFIX))


def load_producers(
    directory: Path, segments: list[Segment], files: Files, *, start_offset: int, end_offset: int
) -> ProducerState:
    """The state at `end_offset`: the newest sound snapshot not above it, and the headers from there on. Raises OSError."""
    state = _newest_snapshot(directory, files, end_offset) or ProducerState(start_offset)
    bases = [segment.base_offset for segment in segments]
    first = max(0, bisect_right(bases, state.end_offset) - 1)
    begin = state.end_offset
    for segment in segments[first:] if begin < end_offset else ():
        if not segment.exists:
            continue
        for position, view in scan_headers(files, segment.file, 0, segment.size):
            if view.base_offset >= begin:
                state.update(_whole_marker(files, segment, position, view))
        if segment is not segments[-1]:
            segment.release()
    state.end_offset = end_offset
    return state


def _newest_snapshot(directory: Path, files: Files, end_offset: int) -> ProducerState | None:
    for offset in reversed(list_snapshots(directory, files)):
        if offset > end_offset:
            continue
        try:
            data = files.read_bytes(directory / file_name(offset, SNAPSHOT_SUFFIX))
            return ProducerState.parse_snapshot(data, offset)
        except ValueError:
            continue
    return None


def _whole_marker(files: Files, segment: Segment, position: int, view: BatchView) -> BatchView:
    """Of a transaction marker the record is needed too; of everything else the header is enough."""
    if view.is_control and view.producer_id >= 0 and view.size <= CONTROL_BATCH_BYTES_MAX:
        return read_batch(files, segment.file, position, view.size) or view
    return view

"""Long operations on a segment, in steps: finding its largest timestamp, and rebuilding its indexes.

Between two steps the segment may be read, written, truncated or removed.
"""

from __future__ import annotations

from trimaran.log.segments.index import IndexDamaged
from trimaran.log.segments.segment import Segment
from trimaran.log.steps import Steps
from trimaran.wire.identity import NO_TIMESTAMP, Offset

# The cost of opening the files of a segment, as a number of headers read.
LOADED_UNITS = 30


def largest_timestamp(segment: Segment, index_interval: int) -> Steps[int]:
    """Finds the largest timestamp; -1 if no batch has one. A segment that is not loaded is searched through its time
    index. Raises OSError.
    """
    if not segment.max_is_known:
        yield LOADED_UNITS
        if segment.removed:
            return NO_TIMESTAMP
        try:
            newest = yield from segment.newest_before(segment.size)
        except IndexDamaged:
            newest = None
        if newest is None:
            yield from rebuild_in_steps(segment, index_interval)
        elif not segment.max_is_known:
            segment.max_timestamp, segment.max_timestamp_offset = newest[0], Offset(newest[1])
            segment.max_is_known = True
    return segment.max_timestamp


def sound_index(segment: Segment, index_interval: int) -> Steps[None]:
    """Rebuilds the indexes if the offset index is invalid, before a search would do so without steps. Raises
    OSError.
    """
    try:
        _ = segment.offset_index.entries
    except IndexDamaged:
        yield from rebuild_in_steps(segment, index_interval)


def rebuild_in_steps(segment: Segment, index_interval: int) -> Steps[None]:
    """Rebuilds indexes as `Segment.rebuild` does, separately from those that readers use in the meantime. An active
    segment is rebuilt without steps: its indexes were checked when it was loaded.

    Nothing changes if the segment was truncated or removed between two steps. Raises OSError.
    """
    if segment.removed:
        return  # another file may now have its name
    if segment.may_be_written_to:
        segment.rebuild(index_interval)
        return
    base, files, size = segment.base_offset, segment.files, segment.size
    twin = Segment(segment.directory, base, files, size=size, created=False)
    twin.offset_index.write_behind = twin.time_index.write_behind = True

    def has_changed() -> bool:
        return segment.removed or segment.size != size or segment.may_be_written_to

    for done in (steps := twin.rebuild_steps(index_interval)):
        yield done
        if has_changed():
            steps.close()
            return
    twin.offset_index.write_behind = twin.time_index.write_behind = False
    segment.take_over(twin)

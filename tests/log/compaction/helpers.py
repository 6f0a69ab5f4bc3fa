"""One round of compaction, run to its end."""

from trimaran.log.compaction.cleaning import CleanerLimits
from trimaran.log.compaction.planning import dirt_of, plan_round

KEY = bytes(range(16))


def no_pause(_size):
    return None


def dirt(log, *, cleaned_to=None, high_watermark=None, now_ms=0):
    mark = log.log_end_offset if high_watermark is None else high_watermark
    return dirt_of(log, cleaned_to=cleaned_to, high_watermark=mark, now_ms=now_ms)


LIMITS = CleanerLimits(1 << 20)


def compact(log, *, limits=LIMITS, now_ms=0, **options):
    """Returns the offset at which the clean part ends."""
    found = dirt(log, now_ms=now_ms, **options)
    if not found.dirty_bytes:
        return found.first_dirty_offset
    cleaning = plan_round(log, found, limits=limits, map_key=KEY, now_ms=now_ms, pause=no_pause)
    end_offset = cleaning.build_map()
    for sources in cleaning.groups(end_offset):
        cleaned = cleaning.clean(sources)
        assert log.replace_segments([source.segment for source in sources], cleaned)
    log.purge()
    return end_offset

"""When a segment is full: each bound, exact to the byte, the offset and the millisecond."""

from dataclasses import replace

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.helpers import append, batch_bytes, open_log, view_of
from trimaran.log.batches.batch import BatchView
from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig
from trimaran.log.disk.files import Files
from trimaran.log.segments.rolling import must_roll, room_left, runs_within_segment
from trimaran.log.segments.segment import NO_ROOM, Segment

CONFIG = LogConfig(segment_bytes=10_000, segment_ms=1000, segment_index_bytes=1000)
BASE = 1000


def segment(tmp_path, *, first_ms=5000, batches=1):
    """Returns a segment that begins at offset BASE, with batches of one record each."""
    made = Segment(tmp_path, BASE, Files(), size=0, created=True)
    for number in range(batches):
        data = batch_bytes(1, timestamp_ms=first_ms, base_offset=BASE + number)
        made.append(memoryview(data), [view_of(data)], 0)
    return made


def rolls(active, config=CONFIG, *, size=100, last_offset=BASE + 10, timestamp_ms=5000, now_ms=0):
    return must_roll(active, config, size, last_offset, timestamp_ms, now_ms)


def test_segment_rolls_before_exceeding_its_bytes(tmp_path):
    active = segment(tmp_path)
    rest = CONFIG.segment_bytes - active.size
    assert not rolls(active, size=rest)
    assert rolls(active, size=rest + 1)


def test_empty_segment_takes_batch_of_any_size(tmp_path):
    empty = segment(tmp_path, batches=0)
    assert not rolls(empty, size=CONFIG.segment_bytes + 1, now_ms=1 << 40)


@pytest.mark.parametrize("batches", [0, 1])
def test_segment_rolls_when_offset_exceeds_index_range(tmp_path, batches):
    active = segment(tmp_path, batches=batches)
    assert not rolls(active, last_offset=BASE + RELATIVE_OFFSET_MAX)
    assert rolls(active, last_offset=BASE + RELATIVE_OFFSET_MAX + 1)


@pytest.mark.parametrize("entry_bytes", [8, 12])
def test_segment_rolls_when_an_index_is_full(tmp_path, entry_bytes):
    """The time index keeps one entry free for the end of the segment."""
    active = segment(tmp_path, batches=0)
    entries, free = 9, 1
    for number in range(entries):
        if entry_bytes == 8:
            active.offset_index.append(number + 1, number + 1)
        else:
            active.time_index.append(number + 1, number + 1)
            free = 2
    active.size = 1
    bytes_max = (entries + free) * entry_bytes
    assert not rolls(active, replace(CONFIG, segment_index_bytes=bytes_max))
    assert rolls(active, replace(CONFIG, segment_index_bytes=bytes_max - 1))


COMPACTED = replace(CONFIG, compacts=True, max_compaction_lag_ms=500)
AGES = [
    (CONFIG, 1000, False),
    (CONFIG, 1001, True),
    (COMPACTED, 500, False),
    (COMPACTED, 501, True),
    (replace(COMPACTED, compacts=False), 501, False),
    (replace(COMPACTED, max_compaction_lag_ms=5000), 1001, True),
    (replace(COMPACTED, max_compaction_lag_ms=5000), 1000, False),
]


@pytest.mark.parametrize(("config", "age_ms", "expected"), AGES)
def test_segment_rolls_above_its_age(tmp_path, config, age_ms, expected):
    active = segment(tmp_path)
    assert rolls(active, config, timestamp_ms=5000 + age_ms) is expected
    # The clock counts if the first batch or the new one has no timestamp.
    active.opened_ms = 7000
    assert rolls(active, config, timestamp_ms=-1, now_ms=7000 + age_ms) is expected
    without = segment(tmp_path, first_ms=-1)
    without.opened_ms = 7000
    assert rolls(without, config, timestamp_ms=5000, now_ms=7000 + age_ms) is expected


@given(jitter_ms=st.integers(0, 2000), age_ms=st.integers(0, 1100), lag_ms=st.integers(100, 2000))
def test_jitter_shortens_age_by_a_constant_share(tmp_path_factory, jitter_ms, age_ms, lag_ms):
    """The jitter equals the twin's: it is never more than the age, and is the same for a segment of that name after a
    restart.
    """
    directory = tmp_path_factory.getbasetemp() / f"{'topic' * 30}-0"
    directory.mkdir(exist_ok=True)
    active = segment(directory)
    config = replace(
        CONFIG, compacts=True, max_compaction_lag_ms=lag_ms, segment_jitter_ms=jitter_ms
    )
    age_max = min(1000, lag_ms)
    name = bytes(active.path(".log"))[-64:]
    within = min(jitter_ms, age_max)
    age_max -= crc32c.crc32c(name) % within if within else 0
    assert rolls(active, config, timestamp_ms=5000 + age_ms) is (age_ms > age_max)


@pytest.mark.parametrize("jitter_ms", [0, 7, 400, 1000])
def test_known_room_ends_before_jitter_may_roll(tmp_path, jitter_ms):
    active, config = segment(tmp_path), replace(CONFIG, segment_jitter_ms=jitter_ms)
    room = room_left(active, config)
    assert room.newest_ms == 5000 + CONFIG.segment_ms - jitter_ms
    assert not rolls(active, config, timestamp_ms=room.newest_ms)


def test_changed_config_applies_to_next_append(tmp_path):
    log = open_log(tmp_path / "t-0", CONFIG)
    append(log)
    append(log)
    log.config = replace(CONFIG, segment_bytes=log.active_segment.size)
    append(log)
    assert log.segment_base_offsets == (0, 2)


CONFIGS = st.builds(
    LogConfig,
    segment_bytes=st.integers(300, 2000),
    segment_ms=st.integers(1, 20),
    segment_jitter_ms=st.sampled_from([0, 0, 3, 30]),
    segment_index_bytes=st.integers(24, 96),
    index_interval_bytes=st.sampled_from([0, 60, 200]),
    compacts=st.booleans(),
    max_compaction_lag_ms=st.integers(1, 20),
)
APPENDS = st.lists(
    st.tuples(st.integers(1, 4), st.integers(-1, 40), st.integers(0, 40)), min_size=10, max_size=40
)


@given(CONFIGS, CONFIGS, APPENDS, st.data())
def test_log_with_known_room_rolls_as_twin(tmp_path_factory, config, later_config, appends, data):
    """The twin calls `must_roll` before each append; both are truncated and get another configuration."""
    # A segment's jitter is derived from its name.
    roots = [tmp_path_factory.mktemp("logs") for _ in range(2)]
    log, twin = (open_log(root / f"{'topic' * 30}-0", replace(config)) for root in roots)
    for number, (count, timestamp_ms, now_ms) in enumerate(appends):
        twin.active_segment.room = NO_ROOM
        for written in (log, twin):
            append(written, count, timestamp_ms=timestamp_ms, now_ms=now_ms)
        if number == len(appends) // 2:
            offset = data.draw(st.integers(0, log.log_end_offset))
            for written in (log, twin):
                written.config = later_config
                written.truncate_to(offset)
    assert log.segment_base_offsets == twin.segment_base_offsets


def view(base_offset, last_offset_delta, size):
    data = batch_bytes(1, base_offset=base_offset)
    made = BatchView(memoryview(data))
    made.last_offset_delta, made.size = last_offset_delta, size
    return made


BATCHES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, RELATIVE_OFFSET_MAX // 2, RELATIVE_OFFSET_MAX]), st.integers(1, 60)
    ),
    min_size=1,
    max_size=8,
)


@given(BATCHES)
def test_runs_are_as_long_as_segment_holds(batches):
    views, offset = [], 0
    for delta, size in batches:
        views.append(view(offset, delta, size))
        offset += delta + 1

    def fits(run):
        within = run[-1].last_offset - run[0].base_offset <= RELATIVE_OFFSET_MAX
        return len(run) == 1 or (within and sum(view.size for view in run) <= 100)

    runs = list(runs_within_segment(views, 100))
    assert [view for run, _ in runs for view in run] == views
    for number, (run, size) in enumerate(runs):
        assert fits(run)
        assert size == sum(view.size for view in run)
        if number:
            before = runs[number - 1][0]
            assert not fits([*before, run[0]])

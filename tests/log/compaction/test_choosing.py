"""Choice of segments to compact and to merge, compared with a naive twin and at each bound."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimaran.log.compaction.choosing import Dirt, GroupMember, SealedSegment, group, measure
from trimaran.log.config import RELATIVE_OFFSET_MAX, LogConfig

CONFIG = LogConfig(
    segment_bytes=7, segment_index_bytes=5, min_compaction_lag_ms=0, max_compaction_lag_ms=1000
)
small = st.integers(0, 4)
widths = st.sampled_from([1, 2, RELATIVE_OFFSET_MAX // 2, RELATIVE_OFFSET_MAX, 1 << 31])


def fits_together(members):
    """Whether these merge into one segment that is not too large."""
    offsets = [
        member.next_base_offset - 1 - members[0].base_offset for member in members if member.size
    ]
    return (
        sum(member.size for member in members) <= CONFIG.segment_bytes
        and sum(member.index_size for member in members) <= CONFIG.segment_index_bytes
        and sum(member.time_index_size for member in members) <= CONFIG.segment_index_bytes
        and max(offsets, default=0) <= RELATIVE_OFFSET_MAX
    )


@given(st.lists(st.tuples(widths, small, small, small), max_size=9))
def test_group_takes_all_that_fits_but_no_more(made):
    members, offset = [], 3
    for width, *sizes in made:
        members.append(GroupMember(offset, offset + width, *sizes))
        offset += width
    expected, rest = [], list(enumerate(members))
    while rest:
        count = 1
        while count < len(rest) and fits_together([member for _, member in rest[: count + 1]]):
            count += 1
        expected.append([index for index, _ in rest[:count]])
        rest = rest[count:]
    assert list(group(members, CONFIG)) == expected


@pytest.mark.parametrize(
    ("column", "most"), [("size", 7), ("index_size", 5), ("time_index_size", 5)]
)
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_group_size_reaches_but_never_exceeds_bound(column, most, beyond):
    """The size of the third segment varies around the bound of the group."""
    blank = GroupMember(0, 10, 0, 0, 0)
    sizes = [most, 2, most - 2 + beyond]
    members = [
        blank._replace(base_offset=10 * n, next_base_offset=10 * n + 10, **{column: size})
        for n, size in enumerate(sizes)
    ]
    expected = [[0], [1, 2]] if beyond <= 0 else [[0], [1], [2]]
    assert list(group(members, CONFIG)) == expected


SEGMENTS = [
    SealedSegment(10, 20, 3, 500, 9000),
    SealedSegment(20, 30, 5, 600, 9100),
    SealedSegment(30, 40, 11, 700, 9200),
]
# differences from `measured`'s defaults; the first dirty offset, the end, clean and dirty bytes, whether it is overdue
MEASURED = [
    ({}, (10, 40, 0, 19, False)),
    ({"stable_offset": 40}, (10, 40, 0, 19, False)),
    ({"stable_offset": 39}, (10, 30, 0, 8, False)),
    ({"stable_offset": 19}, (10, 10, 0, 0, False)),
    ({"cleaned_to": 9}, (10, 40, 0, 19, False)),
    ({"cleaned_to": 11}, (11, 40, 0, 19, False)),
    ({"cleaned_to": 29}, (29, 40, 3, 16, False)),
    ({"cleaned_to": 30}, (30, 40, 8, 11, False)),
    ({"cleaned_to": 40}, (40, 40, 19, 0, False)),
    ({"cleaned_to": 50}, (50, 50, 19, 0, False)),
    ({"cleaned_to": 51}, (10, 40, 0, 19, False)),
    ({"now_ms": 1500}, (10, 40, 0, 19, False)),
    ({"now_ms": 1501}, (10, 40, 0, 19, True)),
    ({"now_ms": 1501, "cleaned_to": 20}, (20, 40, 3, 16, False)),
    ({"now_ms": 1701, "stable_offset": 30}, (10, 30, 0, 8, True)),
    ({"now_ms": 9299, "lag": 100}, (10, 30, 0, 8, True)),
    ({"now_ms": 9300, "lag": 100}, (10, 40, 0, 19, True)),
    ({"now_ms": 9000, "lag": 1}, (10, 10, 0, 0, False)),
    ({"now_ms": 9001, "lag": 1}, (10, 20, 0, 3, True)),
]


@pytest.mark.parametrize(("changes", "expected"), MEASURED)
def test_dirt_is_measured_to_offset_and_millisecond(changes, expected):
    changes = dict(changes)
    values = {
        "cleaned_to": None,
        "log_start_offset": 10,
        "log_end_offset": 50,
        "stable_offset": 50,
        "now_ms": 1000,
    }
    config = replace(CONFIG, min_compaction_lag_ms=changes.pop("lag", 0))
    assert measure(SEGMENTS, config, **{**values, **changes}) == expected


@pytest.mark.parametrize(("first_timestamp", "is_overdue"), [(-1, False), (0, False), (1, True)])
def test_segment_without_timestamps_is_not_overdue(first_timestamp, is_overdue):
    segment = SEGMENTS[0]._replace(first_timestamp=first_timestamp)
    ends = {"log_start_offset": 10, "log_end_offset": 20, "stable_offset": 20}
    found = measure([segment], CONFIG, cleaned_to=None, now_ms=1002, **ends)
    assert found.is_overdue is is_overdue


@pytest.mark.parametrize(
    ("clean", "dirty", "is_overdue", "ratio", "is_due"),
    [
        (0, 0, False, 0.0, False),
        (0, 0, True, 0.0, False),
        (4, 0, True, 0.0, False),
        (99, 1, False, 0.01, False),
        (99, 1, True, 0.01, True),
        (5, 5, False, 0.5, False),
        (49, 51, False, 0.51, True),
        (0, 1, False, 1.0, True),
    ],
)
def test_dirt_is_due_when_overdue_or_above_ratio(clean, dirty, is_overdue, ratio, is_due):
    dirt = Dirt(0, 10, clean, dirty, is_overdue)
    assert dirt.ratio == ratio
    assert dirt.is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.5)) is is_due

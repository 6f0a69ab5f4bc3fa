"""Bounds of a read: the texts that users write, and the offsets that they resolve to."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import check_each
from trimaran.spark.data_source.limits import (
    Limit,
    Resolving,
    as_json,
    by_partition,
    ending_limit,
    from_json,
    starting_limit,
)
from trimaran.spark.options import EARLIEST, LATEST, OptionError, OptionReader
from trimaran.spark.origins.origin import Bounds, DataUnreadable

A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
BOUNDS = {A0: Bounds(3, 10), A1: Bounds(0, 0), B0: Bounds(5, 6)}


def starting(default="earliest", **given):
    return starting_limit(OptionReader("kafka_log", given), default)


def ending(**given):
    return ending_limit(OptionReader("kafka_log", given))


OFFSETS = '{"a":{"0":4,"1":-2}}'
TIMES = '{"a":{"0":7}}'
WRITTEN = [
    (partial(starting), Limit("startingOffsets", EARLIEST)),
    (partial(starting, "latest"), Limit("startingOffsets", LATEST)),
    (partial(ending), Limit("endingOffsets", LATEST)),
    (partial(starting, startingOffsets=" Earliest "), Limit("startingOffsets", EARLIEST)),
    (partial(starting, "latest", startingOffsets="earliest"), Limit("startingOffsets", EARLIEST)),
    (partial(starting, "latest", startingOffsets="latest"), Limit("startingOffsets", LATEST)),
    (partial(ending, endingOffsets="latest"), Limit("endingOffsets", LATEST)),
    (partial(starting, startingOffsets=OFFSETS), Limit("startingOffsets", offsets={A0: 4, A1: -2})),
    (partial(ending, endingOffsets='{"a":{"0":-1}}'), Limit("endingOffsets", offsets={A0: -1})),
    (
        partial(starting, "latest", startingOffsets='{"a":{"0":-1,"1":-2}}'),
        Limit("startingOffsets", offsets={A0: -1, A1: -2}),
    ),
    (partial(starting, startingTimestamp="0"), Limit("startingTimestamp", timestamp_ms=0)),
    (
        partial(starting, startingOffsetsByTimestamp=TIMES),
        Limit("startingOffsetsByTimestamp", timestamps={A0: 7}),
    ),
    (
        partial(starting, startingOffsetsByTimestamp=TIMES, startingOffsets=OFFSETS),
        Limit("startingOffsetsByTimestamp", timestamps={A0: 7}),
    ),
    (
        partial(
            starting,
            startingTimestamp="5",
            startingOffsetsByTimestamp=TIMES,
            startingOffsets=OFFSETS,
        ),
        Limit("startingTimestamp", timestamp_ms=5),
    ),
    (partial(ending, endingTimestamp="5"), Limit("endingTimestamp", LATEST, timestamp_ms=5)),
]


def test_first_of_several_written_limits_wins():
    def is_so(row):
        find, expected = row
        assert find() == expected

    check_each(WRITTEN, is_so)


REFUSED = [
    {"startingOffsets": "latest"},  # a batch that begins at the end reads nothing
    {"startingOffsets": '{"a":{"0":-1}}'},
    {"endingOffsets": "earliest"},
    {"endingOffsets": '{"a":{"0":-2}}'},
    {"startingOffsets": '{"a":{"0":-3}}'},
    {"startingOffsets": "{}"},
    {"startingOffsets": '{"a":{"0":true}}'},
    {"startingOffsets": '{"a":{"0":"1"}}'},
    {"startingOffsets": '{"a":{"0":1.0}}'},
    {"startingOffsets": '{"a":{"x":1}}'},
    {"startingOffsets": '{"a":[1]}'},
    {"startingOffsets": "[1]"},
    {"startingOffsets": "nonsense"},
    {"startingTimestamp": "-1"},
    {"startingTimestamp": "soon"},
    {"startingTimestamp": "9223372036854775808"},  # exceeds the int64 of a request
    {"endingOffsetsByTimestamp": '{"a":{"0":9223372036854775808}}'},
    {"startingOffsetsByTimestamp": '{"a":{"0":-1}}'},
    {"startingOffsetsByTimestamp": "{}"},
    {"endingOffsetsByTimestamp": '{"a":{"0":false}}'},
]


def test_invalid_limit_is_refused_by_option_name():
    def is_refused(given):
        (option,) = given
        with pytest.raises(OptionError, match=option):
            (starting if option.startswith("starting") else ending)(**given)

    check_each(REFUSED, is_refused)


def test_stream_begins_no_lower_than_earliest():
    for wrong in (-3, -100):
        with pytest.raises(OptionError, match="startingOffsets"):
            starting("latest", startingOffsets=json.dumps({"a": {"0": wrong}}))


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (Limit("x"), True),
        (Limit("x", LATEST), False),
        (Limit("x", offsets={A0: 1}), False),
        (Limit("x", timestamp_ms=0), False),
        (Limit("x", timestamps={A0: 1}), False),
    ],
)
def test_limit_is_earliest_only_without_other_choice(limit, expected):
    assert limit.is_earliest is expected


KEYS = st.tuples(st.sampled_from(["a", "b", "ä"]), st.integers(0, 20))


@given(st.dictionaries(KEYS, st.integers(-2, 1 << 62), min_size=1))
def test_offsets_by_partition_survive_a_round_trip(offsets):
    written = as_json(offsets)
    assert from_json(written) == offsets
    assert by_partition(json.dumps(written)) == offsets
    assert list(written) == sorted(written)


def resolving(times=None, **options):
    """`times` are the records' times by partition, the first at the partition's start."""

    def offsets_at(asked):
        found = {}
        for key, time in asked.items():
            later = [n for n, at in enumerate((times or {}).get(key, [])) if at >= time]
            found[key] = BOUNDS[key].start + later[0] if later else None
        return found

    return Resolving("kafka_log", offsets_at, BOUNDS, frozenset(BOUNDS), **options)


def ends(one, limit):
    """Returns the ends of the partitions, read from their beginnings."""
    return {key: span.end for key, span in one.spans(Limit("x", EARLIEST), limit).items()}


ALL = {A0: 4, A1: -2, B0: -1}


def test_edges_are_those_of_each_partition():
    for limit, expected in (
        (Limit("x", EARLIEST), {A0: 3, A1: 0, B0: 5}),
        (Limit("x", LATEST), {A0: 10, A1: 0, B0: 6}),
        (Limit("x", offsets=ALL), {A0: 4, A1: 0, B0: 6}),
        (Limit("x", offsets={A0: 3, A1: 0, B0: 6}), {A0: 3, A1: 0, B0: 6}),
        (Limit("x", offsets={A0: 10, A1: 0, B0: 5}), {A0: 10, A1: 0, B0: 5}),
    ):
        assert resolving().start(limit) == ends(resolving(), limit) == expected


@pytest.mark.parametrize(
    ("key", "wrong", "nearest"), [(A0, 2, 3), (A0, 11, 10), (A1, 1, 0), (B0, 4, 5), (B0, 7, 6)]
)
def test_offset_outside_of_partition_is_data_loss(key, wrong, nearest, caplog):
    limit = Limit("startingOffsets", offsets={A0: 4, A1: 0, B0: 5, key: wrong})
    told = f"{key[0]}-{key[1]} has the offsets {BOUNDS[key].start} to {BOUNDS[key].end}, {wrong} is"
    with pytest.raises(DataUnreadable, match=told):
        resolving().start(limit)
    assert resolving(fail_on_data_loss=False).start(limit)[key] == nearest
    assert told in caplog.text


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({A0: 4}, "a-1, b-0 are missing; -2 is the earliest offset, -1 the latest"),
        ({A0: 4, A1: 0}, "b-0 is missing; -2"),
        ({**ALL, ("c", 0): 1}, "c-0 is not among the partitions being read"),
        (
            {**ALL, ("c", 0): 1, ("d", 1): 1},
            "c-0, d-1 are not among the partitions being read",
        ),
        (
            {**ALL, **{("c", number): 1 for number in range(7)}},
            "c-0, c-1, c-2, c-3, c-4 and 2 more are not among",
        ),
    ],
)
def test_choice_by_partition_names_exactly_all_partitions(given_, told):
    with pytest.raises(OptionError, match=told):
        resolving().start(Limit("startingOffsets", offsets=given_))
    with pytest.raises(OptionError, match=told.partition(";")[0]) as raised:
        ends(resolving(), Limit("endingOffsetsByTimestamp", timestamps=given_))
    assert "-2 is the earliest" not in str(raised.value)


def test_partitions_that_were_filtered_out_may_be_named():
    keys = frozenset([*BOUNDS, ("c", 0)])
    one = Resolving("kafka_log", lambda asked: dict.fromkeys(asked, 7), BOUNDS, keys)
    given_ = {**ALL, ("c", 0): 9}
    assert one.start(Limit("startingOffsets", offsets=given_)) == {A0: 4, A1: 0, B0: 6}
    times = dict.fromkeys(given_, 1)
    found = one.start(Limit("startingOffsetsByTimestamp", timestamps=times))
    assert found == {A0: 7, A1: 0, B0: 6}  # a record below the start of the log is not read


TIMES_OF_RECORDS = {A0: [10, 20, 20, 30, 15, 40, 50], B0: [5]}


@pytest.mark.parametrize(
    ("time", "expected"),
    [(0, {A0: 3, B0: 5}), (20, {A0: 4, B0: 6}), (35, {A0: 8, B0: 6}), (51, {A0: 10, B0: 6})],
)
def test_times_resolve_to_first_record_not_earlier(time, expected):
    """An end time after all records means the latest offset. So does such a start time without `strict_times`."""
    one = resolving(TIMES_OF_RECORDS, strict_times=False)
    every = Limit("startingTimestamp", timestamp_ms=time)
    by_each = Limit("startingOffsetsByTimestamp", timestamps=dict.fromkeys(BOUNDS, time))
    for limit in (every, by_each):
        assert one.start(limit) == ends(one, limit) == {**expected, A1: 0}
        assert ends(resolving(TIMES_OF_RECORDS), limit) == {**expected, A1: 0}
        with pytest.raises(OptionError, match=f"has no record of {time} ms or later"):
            resolving(TIMES_OF_RECORDS).start(limit)


BEHIND = [
    (Limit("s", offsets={**ALL, A0: 8}), Limit("e", offsets={**ALL, A0: 7}), 8, 7),
    (Limit("s", offsets={**ALL, A0: 11}), Limit("e", LATEST), 11, 10),  # beyond the log
    (Limit("s", LATEST), Limit("e", offsets={**ALL, A0: 7}), 10, 7),
    (Limit("s", offsets={**ALL, A0: 9}), Limit("e", timestamp_ms=30), 9, 6),
    (Limit("s", timestamp_ms=30), Limit("e", offsets=ALL), 6, 4),
    (Limit("s", timestamp_ms=30), Limit("e", timestamp_ms=20), 6, 4),
    (Limit("s", EARLIEST), Limit("e", offsets={**ALL, A0: 2}), 3, 2),  # deleted by retention
    (Limit("s", timestamps=dict.fromkeys(ALL, 31)), Limit("e", timestamp_ms=1), 8, 3),
]


def test_start_behind_its_end_is_refused():
    def is_refused(row):
        start, end, begins, stops = row
        told = f"a-0: s begins at offset {begins}, behind offset {stops}, where e ends"
        for fail in (True, False):
            one = resolving(TIMES_OF_RECORDS, strict_times=False, fail_on_data_loss=fail)
            with pytest.raises(OptionError, match=told):
                one.spans(start, end)

    check_each(BEHIND, is_refused)


def test_start_later_than_its_end_is_refused():
    """This holds even if no record lies between the two times, or after them."""
    start = Limit("s", timestamps={**dict.fromkeys(ALL, 1), A0: 100})
    end = Limit("e", timestamps=dict.fromkeys(ALL, 99))
    with pytest.raises(OptionError, match="a-0: s 100 is later than e 99"):
        resolving(TIMES_OF_RECORDS, strict_times=False).spans(start, end)


def test_start_at_its_end_reads_nothing():
    limit = Limit("s", offsets={**ALL, A0: 7})
    assert resolving().spans(limit, Limit("e", offsets={**ALL, A0: 7}))[A0] == (7, 7)

"""Records in bulk: the compiled and the interpreted walk agree with the plain decoder, also on damaged bytes."""

import shutil
import struct
import sysconfig
from array import array
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import examples
from tests.log.batches.test_records import FROM_KAFKA
from tests.log.interpreted import interpreted
from trimaran.log.batches import columns as bulk
from trimaran.log.batches import columns_walk
from trimaran.log.batches.batch import HEADER, HEADER_BYTES, BatchView
from trimaran.log.batches.columns import (
    INT64_MAX,
    INT64_MIN,
    MalformedRecords,
    Problem,
    check_records,
    decode_columns,
    decode_columns_within,
    decode_headers,
    decode_some,
    retain,
)
from trimaran.log.batches.records import NewRecord, build_batch, decode_records, records_bytes
from trimaran.log.codecs.compression import Compression
from trimaran.wire.errors import RemoteProtocolError

WALKS = [columns_walk, interpreted(columns_walk)] if columns_walk.COMPILED else [columns_walk]
both = pytest.mark.parametrize("walk", WALKS, ids=lambda walk: str(walk.COMPILED))


@contextmanager
def using(walk):
    kept, bulk.Walker = bulk.Walker, walk.Walker
    try:
        yield
    finally:
        bulk.Walker = kept


def can_compile():
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return headers.exists() and any(shutil.which(name) for name in ("cc", "gcc", "clang"))


@pytest.mark.skipif(not can_compile(), reason="no C compiler, or no headers of Python")
def test_compiled_walk_is_used():
    assert bulk.COMPILED


def test_compiled_walk_has_the_same_problems():
    assert [list(map(tuple, ((p.name, p.value) for p in walk.Problem))) for walk in WALKS] == [
        [(p.name, p.value) for p in Problem]
    ] * len(WALKS)


sizes = st.binary(max_size=20) | st.sampled_from([bytes(63), bytes(64), bytes(8191), bytes(8192)])
timestamps = st.integers(-1, 1 << 50) | st.sampled_from([INT64_MAX // 2, INT64_MIN // 2])
new_records = st.lists(
    st.builds(
        NewRecord,
        key=st.none() | sizes,
        value=st.none() | sizes,
        timestamp_ms=timestamps,
        headers=st.lists(st.tuples(st.text(max_size=3), st.none() | sizes), max_size=3),
    ),
    min_size=1,
    max_size=12,
)
batches = st.lists(st.tuples(new_records, st.sampled_from(Compression)), min_size=1, max_size=3)


def built(made, base_offset=5):
    views = []
    for records, codec in made:
        data = bytearray(build_batch(records, base_offset=base_offset, compression=codec))
        views.append(BatchView(memoryview(data)))
        base_offset = views[-1].next_offset + 3
    return views


def rows(columns):
    """Returns the columns as the plain decoder's tuples."""
    places = decode_headers(columns.data, columns.headers_start, columns.headers_count)
    headers = zip(*(iter(column) for column in places), strict=True)
    for row in range(len(columns)):
        pairs = []
        for _, (ks, kn, vs, vn) in zip(range(columns.headers_count[row]), headers, strict=False):
            value = None if vn < 0 else bytes(columns.data[vs : vs + vn])
            pairs.append((bytes(columns.data[ks : ks + kn]).decode(errors="replace"), value))
        yield (
            columns.offset[row],
            columns.timestamp_ms[row],
            columns.key(row),
            columns.value(row),
            tuple(pairs),
        )


@both
@given(made=batches)
def test_columns_equal_the_plain_decoder(walk, made):
    views = built(made)
    with using(walk):
        columns = decode_columns(views)
        plain = [r for view in views for r in map(tuple, decode_records(view))]
        assert list(zip(columns.keys(), columns.values(), strict=True)) == [
            row[2:4] for row in plain
        ]
        assert list(rows(columns)) == plain
    assert list(columns.batch) == [i for i, view in enumerate(views) for _ in range(view.count)]


@both
@given(made=batches)
def test_columns_of_adjacent_batches_are_decoded(walk, made):
    views = [view for view in built(made) if view.compression is Compression.NONE]
    data, starts = bytearray(b"before"), []
    for view in views:
        starts.append(len(data) + HEADER_BYTES)
        data += view.buffer
    with using(walk):
        columns = decode_columns_within(data, views, starts)
        assert list(rows(columns)) == list(rows(decode_columns(views)))
    assert columns.data is data


@both
@pytest.mark.parametrize("name", FROM_KAFKA)
def test_batches_of_real_clients_are_decoded(walk, name):
    view = BatchView(memoryview(bytes.fromhex(FROM_KAFKA[name])))
    with using(walk):
        assert list(rows(decode_columns([view]))) == [tuple(r) for r in decode_records(view)]
        check_records(records_bytes(view), view.count, view.base_timestamp)


@both
def test_append_time_applies_to_every_record(walk):
    [view] = built([([NewRecord(b"a", b"b", 5), NewRecord(b"c", b"d", 6)], Compression.NONE)])
    view.stamp_append_time(77)
    with using(walk):
        assert list(decode_columns([view]).timestamp_ms) == [77, 77]


def view_of(body, count, base_timestamp):
    header = HEADER.pack(
        0, 49 + len(body), 0, 2, 0, 0, count - 1, base_timestamp, 0, -1, -1, -1, count
    )
    return BatchView(memoryview(header + bytes(body)))


def plain_check(body, count, base_timestamp, requires_keys, least, most):
    """Runs the naive twin: returns (problem, index), (None, index) if only the decoder knows the details, or the
    largest timestamp.
    """
    try:
        records = decode_records(view_of(body, count, base_timestamp))
    except RemoteProtocolError:
        return (None, None)
    largest = (-1, -1)
    for index, record in enumerate(records):
        if not INT64_MIN <= record.timestamp_ms <= INT64_MAX:
            return (Problem.TIMESTAMP_OVERFLOW, index)
        if record.offset != index:
            return (Problem.OFFSET_DELTA, index)
        if requires_keys and record.key is None:
            return (Problem.NULL_KEY, index)
        if record.timestamp_ms != -1 and not least <= record.timestamp_ms <= most:
            return (Problem.TIMESTAMP_RANGE, index)
        if record.timestamp_ms > largest[0]:
            largest = (record.timestamp_ms, index)
    return largest


def walked(body, count, base_timestamp, requires_keys, least, most):
    try:
        return tuple(
            check_records(
                body,
                count,
                base_timestamp,
                requires_keys=requires_keys,
                timestamp_min_ms=least,
                timestamp_max_ms=most,
            )
        )
    except MalformedRecords as error:
        return (error.problem, error.index)


def agree(found, expected):
    if expected == (None, None):
        return isinstance(found[0], Problem)
    return found == expected


changes = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3)
limits = st.sampled_from([(INT64_MIN, INT64_MAX), (0, 1 << 40), (1000, 2000)])


@both
@examples(3)
@given(
    records=new_records,
    changed=changes,
    cut=st.integers(0, 3),
    more=st.integers(-1, 1),
    base=st.none() | st.sampled_from([INT64_MIN, INT64_MAX, -1]),
    requires_keys=st.booleans(),
    limit=limits,
)
@example([NewRecord(b"k", b"v", 0)], [], 0, 0, INT64_MIN, True, (INT64_MIN, INT64_MAX))
def test_checks_equal_the_plain_decoder(
    walk, records, changed, cut, more, base, requires_keys, limit
):
    view = BatchView(build_batch(records))
    body = bytearray(records_bytes(view))
    for place, value in changed:
        body[place % len(body)] = value
    body = body[: len(body) - cut]
    base = view.base_timestamp if base is None else base
    asked = (bytes(body), view.count + more, base, requires_keys, *limit)
    with using(walk):
        assert agree(walked(*asked), plain_check(*asked))


def varint(number, padding=0):
    """Returns a zigzag varint, made longer by groups without bits."""
    raw, out = (number << 1) ^ (number >> 63), bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    for _ in range(padding):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


paddings = st.sampled_from([0] * 40 + [1, 4, 9])
odd_sizes = st.sampled_from([0] * 60 + [-3, -2, -1, 1, 2, 1 << 30, 1 << 33, -(1 << 31)])


@st.composite
def crafted_slices(draw):
    data = draw(st.sampled_from([None, b"", b"k", b"\1\1", bytes(64)]))
    size = (-1 if data is None else len(data)) + draw(odd_sizes)
    return varint(size, draw(paddings)) + (data or b"")


@st.composite
def crafted_records(draw, index):
    """Draws a record whose fields are mostly right, in encodings that no producer writes."""
    headers = draw(st.sampled_from([0, 0, 0, 1, 2]))
    body = bytes([draw(st.sampled_from([0, 255]))])
    body += varint(draw(st.sampled_from([0, 1, -1, INT64_MAX, INT64_MIN])), draw(paddings))
    body += varint(index + draw(odd_sizes), draw(paddings))
    body += draw(crafted_slices()) + draw(crafted_slices())
    body += varint(headers + draw(odd_sizes), draw(paddings))
    for _ in range(2 * headers):
        body += draw(crafted_slices())
    return varint(len(body) + draw(odd_sizes), draw(paddings)) + body


@both
@examples(5)
@given(
    data=st.data(),
    count=st.integers(1, 3),
    more=st.sampled_from([0, 0, 0, -1, 1]),
    requires_keys=st.booleans(),
)
def test_crafted_records_have_the_twins_result(walk, data, count, more, requires_keys):
    body = b"".join(data.draw(crafted_records(i)) for i in range(count))
    asked = (body, count + more, 1000, requires_keys, INT64_MIN, INT64_MAX)
    with using(walk):
        assert agree(walked(*asked), plain_check(*asked))


@both
def test_surplus_varint_bits_are_dropped_as_in_java(walk):
    body = varint(6 + (1 << 33)) + b"\0\0\0\1\1\0"
    with using(walk):
        assert check_records(body, 1, 1000) == (1000, 0)
    assert len(decode_records(view_of(body, 1, 1000))) == 1


def one(body):
    return varint(len(body)) + body


@both
@pytest.mark.parametrize(
    ("problem", "body"),
    [
        (Problem.CUT_SHORT, one(b"\0\0\0\1\1\0")[:-1] + b"\x80"),
        (Problem.RECORD_SIZE, varint(7) + b"\0\0\0\1\1\0"),
        (Problem.RECORD_SIZE, varint(5) + b"\0\0\0\1\1\0"),
        (Problem.RECORD_SIZE, one(b"\0\0\0\1\1\0\0")),
        (Problem.VARINT, one(b"\0" + b"\x80" * 10 + b"\0\0\1\1\0")),
        (Problem.VARINT, one(b"\0\0" + b"\x80" * 5 + b"\0\1\1\0")),
        (Problem.SIZE, one(b"\0\0\0\3\1\0")),
        (Problem.SIZE, one(b"\0\0\0\1\x06\0")),
        (Problem.HEADER_COUNT, one(b"\0\0\0\1\1\1")),
        (Problem.HEADER_COUNT, one(b"\0\0\0\1\1\4\0\0\0")),
        (Problem.HEADER_KEY, one(b"\0\0\0\1\1\2\1\1")),
        (Problem.TIMESTAMP_OVERFLOW, one(b"\0" + varint(INT64_MAX) + b"\0\1\1\0")),
        (Problem.OFFSET_DELTA, one(b"\0\0\2\1\1\0")),
        (Problem.NULL_KEY, one(b"\0\0\0\1\1\0")),
        (Problem.TIMESTAMP_RANGE, one(b"\0\2\0\0\1\0")),
        (Problem.TRAILING_BYTES, one(b"\0\0\0\0\1\0") + b"\0"),
    ],
)
def test_each_problem_has_its_name(walk, problem, body):
    with using(walk):
        found = walked(body, 1, 1000, True, 1000, 1000)
    assert found == (problem, 1 if problem is Problem.TRAILING_BYTES else 0)
    plain = plain_check(body, 1, 1000, True, 1000, 1000)
    assert plain in ((None, None), found)


@both
@examples(3)
@given(body=st.binary(max_size=60), count=st.integers(-1, 9))
def test_any_bytes_have_the_twins_result(walk, body, count):
    asked = (body, count, 1000, False, INT64_MIN, INT64_MAX)
    with using(walk):
        assert agree(walked(*asked), plain_check(*asked))


@both
@given(records=new_records, data=st.data())
def test_retained_records_equal_those_of_plain_decoder(walk, records, data):
    view = BatchView(build_batch(records))
    keep = data.draw(st.lists(st.booleans(), min_size=view.count, max_size=view.count))
    new_base = data.draw(st.none() | st.integers(0, 1 << 50))
    with using(walk):
        kept = retain(
            records_bytes(view),
            view.count,
            view.base_timestamp,
            bytes(keep),
            new_base_timestamp=new_base,
        )
    expected = [r for r, wanted in zip(decode_records(view), keep, strict=True) if wanted]
    assert kept.count == len(expected)
    base = view.base_timestamp if new_base is None else new_base
    assert decode_records(view_of(kept.body, kept.count, base)) == expected if kept.count else True
    assert kept.last_offset_delta == (expected[-1].offset if expected else -1)
    times = [r.timestamp_ms for r in expected if r.timestamp_ms >= 0]
    assert kept.max_timestamp_ms == max(times, default=-1)


@both
def test_runs_of_kept_records_are_copied_unchanged(walk):
    view = BatchView(build_batch([NewRecord(None, b"%d" % i, i) for i in range(5)]))
    body = bytes(records_bytes(view))
    with using(walk):
        columns = decode_columns([view])
        starts = [*columns.record_start, len(body)]
        kept = retain(body, 5, 0, b"\1\1\0\0\1")
    assert bytes(kept.body) == body[: starts[2]] + body[starts[4] :]


@both
def test_shift_beyond_64_bits_is_refused(walk):
    view = BatchView(build_batch([NewRecord(b"", b"", 0), NewRecord(b"", b"", INT64_MAX)]))
    with using(walk), pytest.raises(MalformedRecords) as raised:
        retain(records_bytes(view), 2, 0, b"\1\1", new_base_timestamp=-10)
    assert (raised.value.problem, raised.value.index) == (Problem.TIMESTAMP_OVERFLOW, 1)


@both
@pytest.mark.parametrize("count", [2, 0, -1, 2**31 - 1])
def test_impossible_record_count_allocates_nothing(walk, count):
    view = BatchView(bytearray(build_batch([NewRecord(b"a", b"b", 5)])))
    struct.pack_into(">i", view.buffer, 57, count)
    with using(walk), pytest.raises(MalformedRecords):
        decode_columns([BatchView(view.buffer)])


@both
def test_offsets_stay_within_their_batch(walk):
    [view] = built([([NewRecord(b"a", b"b", 5)] * 3, Compression.NONE)])
    view.last_offset_delta = 1
    with using(walk), pytest.raises(MalformedRecords) as raised:
        decode_columns([view])
    assert (raised.value.problem, raised.value.index) == (Problem.OFFSET_DELTA, 2)


@both
def test_places_beyond_data_raise_without_foreign_reads(walk):
    with using(walk):
        with pytest.raises(MalformedRecords):
            decode_headers(b"\2k\2v", array("i", [1 << 20]), array("i", [1]))
        assert decode_headers(b"\2k\2v", array("i", [0]), array("i", [1])).value_size[0] == 1


@both
def test_large_bodies_walked_without_gil_give_same_outcome(walk):
    view = BatchView(build_batch([NewRecord(b"k", bytes(1000), i) for i in range(100)]))
    body = records_bytes(view)
    assert len(body) > 1 << 16
    with using(walk):
        assert check_records(body, 100, 0) == (99, 99)
        assert len(decode_columns([view])) == 100
        assert retain(body, 100, 0, bytes(100)).count == 0
        damaged = bytearray(body)
        damaged[-1] = 2
        with pytest.raises(MalformedRecords):
            check_records(damaged, 100, 0)


assert HEADER_BYTES == 61


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=30), st.integers(1, 12))
def test_decoding_in_runs_yields_all_records(values, count_max):
    data = build_batch([NewRecord(None, value, 7) for value in values], base_offset=5)
    batch = BatchView(memoryview(data))
    body = records_bytes(batch)
    runs = list(decode_some(batch, body, count_max))
    assert [value for run in runs for value in run.values()] == values
    assert [offset for run in runs for offset in run.offset] == [*range(5, 5 + len(values))]
    assert max(map(len, runs)) <= count_max
    with pytest.raises(MalformedRecords):
        list(decode_some(batch, bytes(body) + b"more", count_max))
    with pytest.raises(MalformedRecords):
        list(decode_some(batch, bytes(body)[:-1], count_max))

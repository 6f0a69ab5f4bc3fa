"""Batches that are made of columns equal those that are built record by record."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.interpreted import interpreted
from trimaran.client.partitioner import murmur2, partition_of_key
from trimaran.log.batches import row_writing, rows
from trimaran.log.batches.batch import HEADER_BYTES, BatchView, check_batch
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.batches.rows import BatchIdentity, OpenBatch
from trimaran.log.codecs.compression import Compression
from trimaran.wire.identity import ProducerEpoch, ProducerId

LOOPS = [row_writing, interpreted(row_writing)] if row_writing.COMPILED else [row_writing]
both = pytest.mark.parametrize("loops", LOOPS, ids=lambda loops: str(loops.COMPILED))
NO_PARTITION = -(1 << 31)
PLAIN = BatchIdentity()

payloads = st.none() | st.binary(max_size=200)
headers = st.lists(st.tuples(st.text(max_size=5), payloads), max_size=3)
new_records = st.lists(
    st.builds(NewRecord, payloads, payloads, st.integers(0, 2**45), headers),
    min_size=1,
    max_size=30,
)


def slices(loops, values):
    data, starts, sizes = b"", array("i"), array("i")
    for value in values:
        starts.append(len(data))
        sizes.append(-1 if value is None else len(value))
        data += value or b""
    return loops.Slices(data, starts, sizes)


def writer_of(loops, records):
    counts = array("i", [len(record.headers) for record in records])
    starts = array("i", [sum(counts[:i]) for i in range(len(counts))])
    pairs = [pair for record in records for pair in record.headers]
    return loops.RowWriter(
        slices(loops, [record.key for record in records]),
        slices(loops, [record.value for record in records]),
        array("q", [record.timestamp_ms for record in records]),
        starts,
        counts,
        slices(loops, [name.encode() for name, _ in pairs]),
        slices(loops, [text for _, text in pairs]),
    )


def batches_of(loops, records, order, target_bytes, producing=PLAIN):
    writer = writer_of(loops, records)
    stamps = array("q", [record.timestamp_ms for record in records])
    made, at = [], 0
    while at < len(order):
        batch = OpenBatch(target_bytes)
        at, _ = batch.add(writer, order, at, len(order), stamps)
        made.append(batch.seal(producing, 7))
    return made


@both
@given(records=new_records)
def test_rows_of_a_batch_equal_built_records(loops, records):
    order = array("i", range(len(records)))
    header = {
        "producer_id": ProducerId(9),
        "producer_epoch": ProducerEpoch(3),
        "is_transactional": True,
    }
    (batch,) = batches_of(
        loops, records, order, 1 << 20, BatchIdentity(Compression.NONE, None, **header)
    )
    assert bytes(batch.data) == build_batch(records, base_sequence=7, **header)
    assert batch.records == len(records)


@both
@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_rows_are_read_back(loops, codec):
    records = [NewRecord(b"k%d" % i, b"v" * i, 1000 - i) for i in range(300)]
    order = array("i", range(300))
    (batch,) = batches_of(loops, records, order, 1 << 20, BatchIdentity(codec))
    view = BatchView(batch.data)
    check_batch(view)
    assert [(r.key, r.value, r.timestamp_ms) for r in decode_records(view)] == [
        r[:3] for r in records
    ]
    assert (view.base_timestamp, view.max_timestamp, view.compression) == (1000, 1000, codec)


@both
@given(records=new_records, target=st.integers(0, 400), data=st.data())
def test_chosen_rows_fill_batches_up_to_their_size(loops, records, target, data):
    order = array("i", data.draw(st.lists(st.integers(0, len(records) - 1), min_size=1)))
    batches = [BatchView(sealed.data) for sealed in batches_of(loops, records, order, target)]
    read = [record for batch in batches for record in decode_records(batch)]
    assert [(r.key, r.value, r.timestamp_ms) for r in read] == [records[i][:3] for i in order]
    for batch in batches:
        check_batch(batch)
        assert batch.count == 1 or batch.size <= max(target, HEADER_BYTES)


def test_batch_that_reached_its_size_is_full():
    record = NewRecord(b"", b"v" * 100, 0)
    writer, stamps = writer_of(row_writing, [record]), array("q", [0])
    batch = OpenBatch(HEADER_BYTES + 100)
    assert batch.add(writer, array("i", [0]), 0, 1, stamps) == (1, True)
    assert OpenBatch(HEADER_BYTES + 200).add(writer, array("i", [0]), 0, 1, stamps) == (1, False)
    assert batch.held_bytes >= batch.size > HEADER_BYTES + 100
    assert OpenBatch(1 << 20).held_bytes == rows.FIRST_BYTES


@both
@given(keys=st.lists(st.binary(max_size=30)))
def test_hashes_equal_those_of_single_keys(loops, keys):
    assert slices(loops, keys).hashes(len(keys)) == [murmur2(key) for key in keys]


def place(
    loops,
    keys,
    topics,
    asked,
    *,
    values=None,
    sticky,
    uses_keys=True,
    batch_bytes=1000,
    filled=(0, 0),
):
    """Places rows in topics with 3 and 5 partitions; slot 1 has no leader."""
    rows = len(topics)
    slots, filled = array("i", [0] * rows), array("q", filled)
    wrong = loops.place_rows(
        array("i", topics),
        array("i", [0, 3]),
        array("i", [3, 5]),
        array("i", asked),
        slices(loops, keys),
        slices(loops, values or [b""] * rows),
        sticky,
        filled,
        array("i", [2, 1, 0, 4, 5, 6, 7, 3]),
        batch_bytes,
        uses_keys,
        slots,
    )
    return wrong, list(slots), list(filled)


@both
def test_rows_are_placed_by_partition_key_or_neither(loops):
    rows = ([b"a", b"b", None, b"a", None], [0, 1, 1, 0, 0], [NO_PARTITION] * 3 + [1, 2])
    by_key = [partition_of_key(b"a", 3), 3 + partition_of_key(b"b", 5)]
    sticky = array("i", [0, 6])
    assert place(loops, *rows, sticky=sticky) == (-1, [*by_key, 6, 1, 2], [0, 9])
    found = place(loops, *rows, sticky=sticky, uses_keys=False)
    assert found == (-1, [0, 6, 6, 1, 2], [10, 19])


@both
def test_full_sticky_partition_is_left_for_the_next(loops):
    sticky = array("i", [0, 7])
    rows = ([None] * 6, [0, 0, 0, 1, 1, 0], [NO_PARTITION] * 6)
    values = [b"v" * 11, b"", b"v" * 20, None, None, b""]
    found = place(loops, *rows, values=values, sticky=sticky, batch_bytes=29, filled=(0, 20))
    assert found == (-1, [0, 0, 2, 7, 3, 0], [9, 9])
    assert list(sticky) == [0, 3]


@both
@pytest.mark.parametrize("wrong", [3, -1])
def test_first_row_without_its_partition_is_named(loops, wrong):
    rows = ([None] * 3, [0] * 3, [2, wrong, wrong])
    assert place(loops, *rows, sticky=array("i", [0, 3]))[0] == 1


@both
@given(slots=st.lists(st.integers(0, 4)))
def test_rows_are_grouped_in_their_order(loops, slots):
    ends, order = array("i", [0] * 5), array("i", [0] * len(slots))
    loops.group_rows(array("i", slots), ends, order)
    assert list(order) == sorted(range(len(slots)), key=lambda row: slots[row])
    assert list(ends) == [sum(slot <= last for slot in slots) for last in range(5)]


@both
@pytest.mark.parametrize(
    ("starts", "sizes"), [([0, 3], [1, 2]), ([0, -1], [1, 1]), ([0], [1]), ([0, 2**31 - 1], [1, 5])]
)
def test_slices_beyond_their_data_are_refused(loops, starts, sizes):
    column = loops.Slices(b"abcd", array("i", starts), array("i", sizes))
    with pytest.raises(IndexError, match="slice"):
        column.check(2)
    fine = slices(loops, [b"a", b"b"])
    with pytest.raises(IndexError, match="slice"):
        loops.RowWriter(fine, column, array("q", [0, 0]), None, None, None, None)


@both
def test_headers_beyond_their_column_are_refused(loops):
    fine = slices(loops, [b"a"])
    one = array("i", [1])
    with pytest.raises(IndexError, match="slices"):
        loops.RowWriter(fine, fine, array("q", [0]), one, one, fine, fine)
    with pytest.raises(IndexError, match="headers of row 0"):
        loops.RowWriter(fine, fine, array("q", [0]), array("i", [-1]), one, fine, fine)


@both
def test_limit_beyond_the_buffer_is_refused(loops):
    writer = writer_of(loops, [NewRecord(None, b"v", 0)])
    with pytest.raises(IndexError, match="limit"):
        writer.write(bytearray(10), 0, 11, array("i", [0]), 0, 1, 0, 0)

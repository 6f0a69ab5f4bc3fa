"""Batches that are divided, without a broker."""

from array import array

import pyarrow as pa
import pytest

from trimaran.log.batches.batch import BatchView
from trimaran.log.batches.records import decode_records
from trimaran.log.batches.rows import BatchIdentity, OpenBatch
from trimaran.log.codecs.compression import Compression
from trimaran.spark.sink.delivery import split
from trimaran.spark.sink.rows import rows_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
LAST_SEQUENCE = (1 << 31) - 1


def sealed(identity, sequence):
    batch = pa.record_batch(
        {
            "key": pa.array([None, b"", b"k", b"a", b"b"]),
            "value": pa.array([b"1", b"2", b"3", None, b""]),
            "timestamp": pa.array([5000, 1000, 9000, 3000, 7000], pa.timestamp("us", "UTC")),
            "headers": pa.array([None, [("z", b"1"), ("a", None)], None, None, None], HEADERS),
        }
    )
    rows = rows_of(batch, "t", 0)
    opened = OpenBatch(1 << 20)
    opened.add(rows.writer, array("i", range(rows.size)), 0, rows.size, rows.timestamps)
    return opened.seal(identity, sequence)


def contents(view):
    return [(r.key, r.value, r.timestamp_ms, r.headers) for r in decode_records(view)]


@pytest.mark.parametrize("is_transactional", [True, False])
def test_divided_batch_keeps_its_producer_and_transaction(is_transactional):
    identity = BatchIdentity(Compression.GZIP, None, 7, 3, is_transactional)
    whole = sealed(identity, LAST_SEQUENCE - 1)
    halves = split(whole)
    views = [BatchView(half.data) for half in halves]
    assert [(half.records, view.count) for half, view in zip(halves, views, strict=True)] == [
        (2, 2),
        (3, 3),
    ]
    assert [view.base_sequence for view in views] == [LAST_SEQUENCE - 1, 0]  # 0 follows the last
    for view in views:
        assert (view.producer_id, view.producer_epoch) == (7, 3)
        assert view.is_transactional == is_transactional
        assert view.compression == Compression.GZIP
    assert contents(views[0]) + contents(views[1]) == contents(BatchView(whole.data))


def test_divided_batch_without_producer_has_no_sequences():
    halves = split(sealed(BatchIdentity(), -1))
    assert [BatchView(half.data).base_sequence for half in halves] == [-1, -1]

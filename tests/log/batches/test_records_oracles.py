"""Batches of v2, encoded and decoded by us and by the record modules of kafka-python and aiokafka, with every codec."""

import warnings

import pytest
from aiokafka.record import default_records as aiokafka
from hypothesis import given
from hypothesis import strategies as st

from trimaran.log.batches.batch import BatchView, has_valid_crc
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression

with warnings.catch_warnings():  # kafka-python loads JSON by a deprecated function
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.record.default_records as kafka_python

OTHERS = pytest.mark.parametrize(
    "theirs", [kafka_python, aiokafka], ids=["kafka-python", "aiokafka"]
)
CODECS = pytest.mark.parametrize("codec", list(Compression), ids=lambda codec: codec.name)
MAYBE_BYTES = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=5), MAYBE_BYTES), max_size=3)
RECORDS = st.lists(
    st.builds(NewRecord, MAYBE_BYTES, MAYBE_BYTES, st.integers(0, 1 << 50), HEADERS),
    min_size=1,
    max_size=6,
)


def plain(record, headers):
    return (
        None if record.key is None else bytes(record.key),
        None if record.value is None else bytes(record.value),
        [(key, None if value is None else bytes(value)) for key, value in headers],
    )


@OTHERS
@CODECS
@given(new=RECORDS, offset=st.integers(0, 1 << 40))
def test_other_clients_read_our_batches(theirs, codec, new, offset):
    built = build_batch(new, base_offset=offset, compression=codec)
    batch = theirs.DefaultRecordBatch(built)
    assert batch.validate_crc()
    found = list(batch)
    assert [(r.offset, r.timestamp) for r in found] == [
        (offset + i, record.timestamp_ms) for i, record in enumerate(new)
    ]
    assert [plain(r, r.headers) for r in found] == [plain(record, record.headers) for record in new]


@OTHERS
@CODECS
@given(new=RECORDS)
def test_batches_of_other_clients_are_read(theirs, codec, new):
    builder = theirs.DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 1 << 20)
    for offset, record in enumerate(new):
        builder.append(offset, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = BatchView(bytes(builder.build()))
    assert has_valid_crc(batch)
    found = decode_records(batch)
    assert [(r.offset, r.timestamp_ms) for r in found] == [
        (i, record.timestamp_ms) for i, record in enumerate(new)
    ]
    assert [plain(r, r.headers) for r in found] == [plain(record, record.headers) for record in new]

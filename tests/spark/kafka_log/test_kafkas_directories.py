"""Directories that Apache Kafka 0.10 to 4.3 wrote, as `kafka_log` reads them, without Spark."""

import pytest

from tests.log import fixtures
from tests.log.fixtures.compare import batches_of
from tests.spark.kafka_log.test_reading import read, rows_of
from trimaran.spark.kafka_log.batches import BATCH_COLUMNS, read_batches

COLUMNS = tuple(name for name in BATCH_COLUMNS if name != "uncompressed_bytes")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark-fixtures")
    return {name: fixtures.unpack(name, folder / name) for name in fixtures.names()}


@pytest.mark.parametrize("name", fixtures.names())
@pytest.mark.parametrize("split_bytes", ["300"])
def test_every_record_is_read(name, split_bytes, unpacked):
    options = {"subscribePattern": "v.*", "splitBytes": split_bytes, "endingOffsets": "latest"}
    found = read(unpacked[name], end="log_end", **options)
    ours = {
        (f"{row['topic']}-{row['partition']}", offset): (timestamp, key, value)
        for row, (offset, timestamp, key, value, _) in zip(found, rows_of(found), strict=True)
    }
    printed = [r for r in fixtures.rows(name, "record") if r["file"].startswith("v")]
    assert len(found) == len(ours) == len(printed)
    for row in printed:
        timestamp, _, value = ours[row["file"].partition("/")[0], row["offset"]]
        assert (timestamp, value and value.decode()) == (row["timestamp"], row["value"])
    for row in found:
        is_append_time = "append" in row["topic"]
        assert row["timestampType"] == (-1 if row["topic"].startswith("v0") else is_append_time)


@pytest.mark.parametrize("name", fixtures.names())
def test_batches_are_those_of_the_segments(name, unpacked):
    options = {"subscribePattern": "v.*", "level": "batches"}
    found = read(unpacked[name], end="log_end", reader=read_batches, columns=COLUMNS, **options)
    wanted = [
        (file, row["baseOffset"], row["lastOffset"], row["count"], row["size"])
        for file in sorted(fixtures.files(name, "batch", ".log"))
        if file.startswith("v")
        for row in batches_of(unpacked[name], file)
    ]
    names = ("base_offset", "last_offset", "record_count", "batch_bytes")
    ours = [
        (str(row["file"]).removeprefix(f"{unpacked[name]}/"), *(row[column] for column in names))
        for row in found
    ]
    assert sorted(ours) == sorted(wanted)
    assert len(ours) > 50
    assert all(row["crc_valid"] for row in found)

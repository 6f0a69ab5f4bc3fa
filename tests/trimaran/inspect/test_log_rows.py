"""`trimaran logs dump`: rows of directories that Apache Kafka wrote, their committed part, and reports of damage."""

import base64
import json
import shutil
import tracemalloc

import pytest

from tests.log import fixtures
from tests.log.helpers import append, fill, open_log
from trimaran.cli.logs import dump
from trimaran.errors.user_error import Exit, UserError
from trimaran.inspect.log_rows import (
    HEADERS_SHOWN,
    batch_rows,
    find_sources,
    record_rows,
    transactions_of,
)
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.inspection.verify import verify
from trimaran.spark.kafka_log.batches import BATCH_COLUMNS
from trimaran.spark.kafka_log.records import RECORD_SCHEMA
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.metadata import encode_metadata_record
from trimaran.wire.records.security import UserScramCredentialRecord
from trimaran.wire.records.topics import TopicRecord

NAMES = fixtures.names()
NEW = [name for name in NAMES if not name.startswith("0.10")]
# A list of all pairs would take 64 bytes for each.
MANY_HEADERS = 200_000


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Returns a directory by its fixture's name; it must not be written to."""
    folder = tmp_path_factory.mktemp("dump")
    return {name: fixtures.unpack(name, folder / name) for name in NAMES}


def lines_of(capsys, *paths, **options):
    code = dump(*paths, output="jsonl", **options)
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def bytes_of(text):
    return None if text is None else base64.b64decode(text).decode()


@pytest.mark.parametrize("name", NAMES)
def test_every_record_of_kafka_is_dumped(name, unpacked, capsys):
    code, rows = lines_of(capsys, unpacked[name], whole_segments=True)
    assert code == Exit.OK
    data = [row for row in rows if "control_type" not in row and row["topic"][:2] != "__"]
    printed = [row for row in fixtures.rows(name, "record") if "marker" not in row]
    assert len(data) == len(printed) > 300
    directory = {f"{row['topic']}-{row['partition']}" for row in data}
    for partition in directory:
        ours = [row for row in data if f"{row['topic']}-{row['partition']}" == partition]
        theirs = [row for row in printed if row["file"].startswith(f"{partition}/")]
        assert [(row["offset"], row["timestamp"], bytes_of(row["value"])) for row in ours] == [
            (row["offset"], row["timestamp"], row["value"]) for row in theirs
        ]
    markers = [row["marker"] for row in fixtures.rows(name, "record") if "marker" in row]
    found = [
        row["control_type"]
        for row in rows
        if row["topic"] == "transactions" and "control_type" in row
    ]
    assert found == markers


def test_columns_are_those_of_kafka_log(unpacked):
    [source], _ = find_sources([unpacked["4.3.0-clean"] / "v2-zstd-0"])
    assert list(next(record_rows(source, None))) == RECORD_SCHEMA.names
    assert set(next(batch_rows(source, None))) == set(BATCH_COLUMNS) - {
        "uncompressed_bytes",
        "log_dir",
        "log_start_offset",
        "cleaner_offset",
    }


@pytest.mark.parametrize("name", NEW)
def test_read_committed_matches_kafkas_consumer(name, unpacked, capsys):
    path = unpacked[name] / "transactions-0"
    _, rows = lines_of(capsys, path, isolation="read_committed")
    wanted = fixtures.rows(name, "consumed", topic="transactions", isolation="read_committed")
    assert [(r["offset"], bytes_of(r["key"]) or "null") for r in rows] == [
        (row["offset"], row["key"]) for row in wanted
    ]
    _, of_segments = lines_of(capsys, *sorted(path.glob("*.log")), isolation="read_committed")
    assert of_segments == rows, "of a segment alone its whole directory tells what was aborted"
    _, batches = lines_of(capsys, path, isolation="read_committed", level="batches")
    assert sum(batch["record_count"] for batch in batches) == len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_internal_topics_are_decoded(name, unpacked, capsys):
    paths = sorted(unpacked[name].glob("__*-0"))
    _, rows = lines_of(capsys, *paths, decode=True) if paths else (0, [])
    decoded = [row["decoded"] for row in rows if "control_type" not in row]
    assert [row for row in decoded if "error" in row] == []
    kinds = {row["type"] for row in decoded}
    if name == "4.3.0-clean":
        assert {"TopicRecord", "GroupMetadata", "TransactionLog", "RegisterBrokerRecord"} <= kinds


@pytest.mark.parametrize("name", NAMES)
def test_kafkas_files_have_no_problems(name, unpacked, capsys):
    assert lines_of(capsys, unpacked[name], verify=True) == (Exit.OK, [])


def test_the_table_shows_batches_records_and_markers(unpacked, capsys):
    path = unpacked["3.9.1-clean"]
    assert dump(path / "transactions-0", path / "__transaction_state-0", decode=True) == Exit.OK
    text = capsys.readouterr().out
    assert "batch 0 to 3 at 0: 4 records" in text
    assert "key-1 -> value-1-abc h=one" in text
    assert "  control ABORT coordinator_epoch=0\n" in text
    assert "transactional, control ABORT\n" in text
    assert "TransactionLog transactional_id=fixture-0 -> " in text


DAMAGE = {
    "transactions-0/*.log": "CRC",
    "transactions-0/*.index": "position",
    "transactions-0/*.timeindex": "timestamp",
    "transactions-0/*.txnindex": "stable",
    "transactions-0/*.snapshot": "CRC",
    "transactions-0/leader-epoch-checkpoint": "epoch",
    "v2-compacted-lz4-0/*.log": "CRC",
}


@pytest.mark.parametrize("pattern", DAMAGE)
def test_damage_in_every_file_kind_is_reported(pattern, unpacked, tmp_path, capsys):
    directory = tmp_path / "copy"
    shutil.copytree(unpacked["3.9.1-clean"], directory)
    path = next(p for p in sorted(directory.glob(pattern)) if p.stat().st_size)
    data = bytearray(path.read_bytes())
    if path.suffix:
        data[-2] ^= 0x10
    else:
        data = data.replace(b"\n0 0\n", b"\n7 0\n")
    path.write_bytes(data)
    code, rows = lines_of(capsys, path.parent, verify=True)
    assert code == Exit.NO
    assert str(path) in {row["file"] for row in rows}
    assert any(DAMAGE[pattern] in row["problem"] for row in rows), rows


def test_decreasing_offsets_and_epochs_are_reported(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 4)
    log.flush()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 4])
    assert any("where 12 or more must be" in problem.what for problem in verify(log.directory))
    append(log, epoch=5)
    append(log, epoch=6)
    data = bytearray(path.read_bytes())
    log.close(clean=False)
    data[15] = 9  # the first batch's epoch, which its CRC does not cover
    path.write_bytes(data)
    assert any("epoch 0 after 9" in problem.what for problem in verify(log.directory))


def test_unflushed_epochs_are_not_missed(tmp_path):
    log = fill(open_log(tmp_path / "t-0"), 4)
    log.flush()
    append(log, epoch=5)
    assert list(verify(log.directory)) == []
    (tmp_path / "recovery-point-offset-checkpoint").write_text(f"0\n1\nt 0 {log.log_end_offset}\n")
    [problem] = verify(log.directory)
    assert problem.what == "offset 12 is of epoch 0, its batch of 5"
    log.close(clean=False)


def test_log_is_printed_up_to_torn_end(tmp_path, capsys):
    log = fill(open_log(tmp_path / "t-0"), 4)
    log.close()
    path = tmp_path / "t-0" / "00000000000000000000.log"
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match="not printed to the end") as told:
        dump(tmp_path / "t-0", output="jsonl")
    assert told.value.exit_code == Exit.NO
    assert len(capsys.readouterr().out.splitlines()) == 9
    assert lines_of(capsys, path, verify=True)[0] == Exit.NO


def test_records_with_very_many_headers_take_little_memory(tmp_path, capsys):
    """A batch of kilobytes expands to very many headers. Their omission is reported, and they are verified
    nevertheless.
    """
    headers = [("", None)] * MANY_HEADERS
    records = [NewRecord(None, b"1", 7, headers), NewRecord(None, b"2", 7)]
    log = open_log(tmp_path / "t-0", LogConfig())
    data = bytearray(build_batch(records, compression=Compression.GZIP))
    assert len(data) < MANY_HEADERS // 100
    views = list(iter_batches(memoryview(data)))
    log.append_as_leader(memoryview(data), views, leader_epoch=0, now_ms=0)
    log.close()
    tracemalloc.start()
    try:
        code, rows = lines_of(capsys, log.directory)
        assert not list(verify(log.directory))
        assert tracemalloc.get_traced_memory()[1] < 40 * MANY_HEADERS
    finally:
        tracemalloc.stop()
    assert code == Exit.OK
    assert [len(row["headers"]) for row in rows] == [HEADERS_SHOWN, 0]
    assert [row.get("headers_left_out") for row in rows] == [MANY_HEADERS - HEADERS_SHOWN, None]


def test_control_records_have_types_not_keys(unpacked, capsys):
    _, rows = lines_of(capsys, unpacked["4.3.0-clean"] / "transactions-0")
    marked = [row for row in rows if "control_type" in row]
    assert {row["control_type"] for row in marked} == {"ABORT", "COMMIT"}
    assert {(row["key"], row["value"]) for row in marked} == {(None, None)}
    assert all("coordinator_epoch" in row["control"] for row in marked)
    _, rows = lines_of(capsys, unpacked["4.3.0-clean"] / "__cluster_metadata-0")
    [change, *_] = [row for row in rows if row.get("control_type") == "LEADER_CHANGE"]
    assert change["control"]["leader_id"] > 0


def test_deleted_records_are_omitted_by_checkpoint(tmp_path, capsys):
    fill(open_log(tmp_path / "t-0"), 4).close()
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    assert dump(tmp_path / "t-0", output="jsonl") == Exit.OK
    shown = capsys.readouterr()
    assert [json.loads(line)["offset"] for line in shown.out.splitlines()] == [7, 8, 9, 10, 11]
    assert "starts at offset 7" in shown.err
    _, batches = lines_of(capsys, tmp_path / "t-0", level="batches")
    assert [batch["base_offset"] for batch in batches] == [6, 9]
    _, rows = lines_of(capsys, tmp_path / "t-0", whole_segments=True)
    assert len(rows) == 12
    (tmp_path / "log-start-offset-checkpoint").write_text("rubbish")
    assert len(lines_of(capsys, tmp_path / "t-0")[1]) == 12


def test_empty_directory_does_not_end_the_dump(tmp_path, capsys):
    fill(open_log(tmp_path / "t-0"), 1).close()
    fill(open_log(tmp_path / "t-2"), 1).close()
    (tmp_path / "t-1").mkdir()
    paths = [tmp_path / name for name in ("t-0", "t-1", "t-2")]
    code = dump(*paths, output="jsonl")
    shown = capsys.readouterr()
    assert code == Exit.NO
    assert f"no log in {tmp_path / 't-1'}" in shown.err
    assert [json.loads(line)["partition"] for line in shown.out.splitlines()] == [0] * 3 + [2] * 3
    assert lines_of(capsys, tmp_path)[0] == Exit.OK
    assert lines_of(capsys, *paths, verify=True) == (Exit.NO, [])


def test_torn_log_does_not_hide_next(tmp_path, capsys):
    for name in ("t-0", "t-1", "t-2"):
        fill(open_log(tmp_path / name), 4).close()
    for name in ("t-0", "t-1"):
        path = tmp_path / name / "00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match="t-1"):
        dump(tmp_path, output="jsonl")
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 9 + 9 + 12
    assert "t-0" in shown.err


def test_directory_without_log_is_refused(tmp_path):
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserError, match="no log in"):
            dump(path)
    with pytest.raises(UserError, match="no path was given"):
        dump()


def test_log_without_transactions_is_stable_to_end(tmp_path):
    fill(open_log(tmp_path / "t-0"), 4).close()
    [source], _ = find_sources([tmp_path / "t-0"])
    assert transactions_of(source).stable_offset == 12


SECRET = "hunter2-secret"


def metadata_log(directory):
    log = open_log(directory / "__cluster_metadata-0")
    records = [
        TopicRecord(name="orders", topic_id=bytes(15) + b"\x01"),
        ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value=SECRET),
        ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value="7"),
        UserScramCredentialRecord(
            name="bob",
            mechanism=1,
            salt=b"x",
            stored_key=SECRET.encode(),
            server_key=b"y",
            iterations=4096,
        ),
    ]
    unknown = b"\x01\x7f\x00" + SECRET.encode()  # frame version 1, type 127, version 0
    values = [*(encode_metadata_record(record, 0) for record in records), unknown]
    for value in values:
        append(log, value=value)
    log.close()
    return directory / "__cluster_metadata-0"


@pytest.mark.parametrize("options", [{}, {"decode": True}])
@pytest.mark.parametrize("output", ["table", "jsonl", "yaml"])
def test_metadata_secrets_are_hidden_in_every_format(tmp_path, capsys, output, options):
    assert dump(metadata_log(tmp_path), output=output, **options) == Exit.OK
    shown = capsys.readouterr().out
    assert SECRET not in shown
    assert base64.b64encode(SECRET.encode()).decode().rstrip("=")[4:-4] not in shown
    assert "(hidden)" in shown


def test_other_metadata_records_are_shown_whole(tmp_path, capsys):
    _, rows = lines_of(capsys, metadata_log(tmp_path))
    hidden = [row["offset"] for row in rows if row["value"] == "(hidden)"]
    assert hidden == [1, 3, 4], "and the record that nobody can decode"
    assert b"orders" in base64.b64decode(rows[0]["value"])
    assert b"retention.ms" in base64.b64decode(rows[2]["value"])


@pytest.mark.parametrize("name", ["copy-0", "evidence"])
def test_secrets_of_a_copied_metadata_log_are_hidden(tmp_path, capsys, name):
    """A copied log may have any name. Most records show their type; an unknown record may belong to any log."""
    copy = metadata_log(tmp_path).rename(tmp_path / name)
    _, rows = lines_of(capsys, copy)
    assert [row["offset"] for row in rows if row["value"] == "(hidden)"] == [1, 3]

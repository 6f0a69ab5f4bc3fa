"""Compaction, transactions and producer state: Apache Kafka's tools read our files, and we read its directories as it
does.
"""

from __future__ import annotations

import re
import shutil
import time

import pytest
from confluent_kafka.admin import NewTopic

from tests.interop import apache_kafka
from tests.librdkafka import AdminClient, Producer
from tests.log.compaction.helpers import compact
from tests.log.compaction.test_against_twin import views_of
from tests.log.helpers import open_log, view_of
from trimaran.log.batches.records import NewRecord, build_batch, decode_records
from trimaran.log.codecs.compression import Compression
from trimaran.log.config import LogConfig
from trimaran.log.partitions.opening import LastRun
from trimaran.log.partitions.partition_log import PartitionLog
from trimaran.log.producers.marker import EndMarker, build_end_marker
from trimaran.log.producers.snapshots import parse_snapshot

pytestmark = pytest.mark.interop

CONFIG = LogConfig(segment_bytes=40_000, index_interval_bytes=500, compacts=True, deletes=False)
WAIT_SECONDS_MAX = 60


def dump(path, *options):
    done = apache_kafka.tool("dump-log", "--files", str(path), *options)
    assert "Exception" not in done.stdout + done.stderr, done.stdout + done.stderr
    assert "Mismatch" not in done.stdout, done.stdout
    assert "Non-consecutive" not in done.stdout, done.stdout
    return done.stdout


def dumped_batches(text):
    return [
        (int(base), int(last), int(count))
        for base, last, count in re.findall(
            r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+)", text, re.MULTILINE
        )
    ]


def dumped_aborts(text):
    pattern = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    return [tuple(map(int, found)) for found in re.findall(pattern, text)]


def append(log, data):
    view = view_of(bytearray(data))
    log.append_as_leader(view.buffer, [view], leader_epoch=0, now_ms=0)


def written(directory):
    """Writes every kind of batch: compressed, compacted, emptied, with a delete horizon, of aborted and committed
    transactions.
    """
    log = open_log(directory, CONFIG)
    codecs = list(Compression)
    for number in range(400):
        keys = [b"%d" % ((number * 7 + i * 13) % 50) for i in range(4)]
        records = [
            NewRecord(key, None if number % 9 == 0 else b"v" * 60, 1_700_000_000_000 + number)
            for key in keys
        ]
        producer = number % 4
        fields = {}
        if producer:
            fields = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": number // 4 * 4,
                "is_transactional": producer > 1,
            }
        append(log, build_batch(records, compression=codecs[number % 5], **fields))
        if producer > 1 and number % 8 > 3:
            marker = EndMarker(producer == 2, 0)
            append(
                log,
                build_end_marker(
                    marker,
                    producer_id=producer,
                    producer_epoch=0,
                    timestamp_ms=records[0].timestamp_ms,
                ),
            )
    log.roll(0)
    append(log, build_batch([NewRecord(b"end", b"", 1_700_000_001_000)]))
    return log


def test_kafka_reads_what_compaction_leaves(tmp_path):
    log = written(tmp_path / "t-0")
    end = log.log_end_offset
    compact(log, now_ms=1_700_000_002_000)
    compact(log, cleaned_to=0, now_ms=1_700_000_002_000 + CONFIG.delete_retention_ms)
    shapes = [(view.base_offset, view.last_offset, view.count) for view in views_of(log)]
    assert any(count == 0 for _, _, count in shapes)
    aborted = log.aborted_transactions(0, end)
    log.close()
    files = sorted(log.directory.iterdir())
    kafkas = [
        batch
        for path in files
        if path.suffix == ".log"
        for batch in dumped_batches(dump(path, "--deep-iteration", "--print-data-log"))
    ]
    assert kafkas == shapes
    for path in files:
        if path.suffix in (".index", ".timeindex"):
            dump(path, "--verify-index-only")
            dump(path, "--index-sanity-check")
    indexes = [path for path in files if path.suffix == ".txnindex"]
    assert [entry for path in indexes for entry in dumped_aborts(dump(path))] == aborted
    for path in files:
        if path.suffix == ".snapshot":
            text = dump(path)
            state = parse_snapshot(path.read_bytes(), int(path.stem))
            for producer, entry in state.entries():
                assert f"producerId: {producer} producerEpoch: {entry.epoch}" in text, text
                assert "currentTxnFirstOffset: " in text


@pytest.fixture(scope="module")
def kafka_with_transactions(tmp_path_factory):
    """Starts a broker with its cleaner disabled and a compacted topic of many transactions, one of which stays open."""
    directory = tmp_path_factory.mktemp("kafka")
    settings = {"log.cleaner.enable": "false", "log.cleaner.backoff.ms": "100"}
    with apache_kafka.running(directory, controllers=0, settings=settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "min.cleanable.dirty.ratio": "0.01",
        }
        [made] = admin.create_topics([NewTopic("life", 1, 1, config=config)]).values()
        made.result(30)
        produce_transactions(running.bootstrap)
        yield running


def produce_transactions(bootstrap):
    producers = [
        Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"life-{i}",
                "compression.type": codec,
                "linger.ms": 5,
            }
        )
        for i, codec in enumerate(("none", "zstd", "lz4"))
    ]
    for producer in producers:
        producer.init_transactions(30)
    for turn in range(60):
        producer = producers[turn % 3]
        producer.begin_transaction()
        for number in range(100):
            key = b"%d" % ((turn * 31 + number) % 700)
            value = None if number % 50 == 3 else b"%d " % turn + b"x" * 800
            producer.produce("life", value, key, partition=0)
        if turn == 59:
            producer.flush(30)
        elif turn % 4 == 1:
            producer.flush(30)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def partition_directory(kafka):
    return kafka.nodes[0].directory / "life-0"


def open_copy(source, target):
    shutil.copytree(source, target)
    config = LogConfig(segment_bytes=1 << 20, compacts=True, deletes=False)
    return PartitionLog.open(target, config, LastRun(clean_shutdown=True), now_ms=0)


def naive_aborts(log):
    begun, aborted = {}, []
    for view in views_of(log):
        if view.is_control:
            first = begun.pop(view.producer_id, None)
            [marker] = decode_records(view)
            if first is not None and marker.key[3] == 0:
                aborted.append((view.producer_id, first, view.base_offset))
        elif view.is_transactional:
            begun.setdefault(view.producer_id, view.base_offset)
    return aborted, min(begun.values())


def test_kafkas_transactions_and_compaction_are_read_alike(kafka_with_transactions, tmp_path):
    """Compares producer snapshot, transaction index and last stable offset; then both compact the same log."""
    kafka = kafka_with_transactions
    kafka.stop()
    source = partition_directory(kafka)
    ours = open_copy(source, tmp_path / "life-0")
    end = ours.log_end_offset
    aborted, stable = naive_aborts(ours)
    indexes = sorted(source.glob("*.txnindex"))
    theirs = [entry for path in indexes for entry in dumped_aborts(dump(path))]
    assert ours.aborted_transactions(0, end) == theirs
    assert [entry[:3] for entry in theirs] == aborted
    assert ours.last_stable_offset(end) == stable
    for path in ours.directory.glob("*.txnindex"):
        path.unlink()
    for path in ours.directory.glob("*.snapshot"):
        path.unlink()
    snapshot = max(source.glob("*.snapshot"))
    kept = parse_snapshot(snapshot.read_bytes(), int(snapshot.stem))
    rebuilt = PartitionLog.open(
        ours.directory, ours.config, LastRun(clean_shutdown=False), now_ms=0
    )
    assert rebuilt.aborted_transactions(0, end) == theirs, "rebuilt from the batches"
    assert facts(rebuilt.producers) == facts(kept)

    compact(rebuilt, now_ms=1000)
    let_kafka_compact(kafka)
    compacted = open_copy(source, tmp_path / "theirs" / "life-0")
    limit = rebuilt.active_segment.base_offset
    assert contents(rebuilt, limit) == contents(compacted, limit)
    assert rebuilt.aborted_transactions(0, limit) == compacted.aborted_transactions(0, limit)


def facts(state):
    return {
        producer: (
            entry.epoch,
            entry.coordinator_epoch,
            entry.last_timestamp,
            entry.transaction_start,
            # a snapshot does not contain its time
            entry.batches[-1][:4] if entry.batches else None,
        )
        for producer, entry in state.entries()
    }


def contents(log, limit):
    """Returns the headers of batches and all records, without fields that depend on the time of the round."""
    return [
        (
            view.base_offset,
            view.last_offset,
            view.count,
            view.producer_id,
            view.base_sequence,
            view.max_timestamp,
            view.delete_horizon_ms is None,
            decode_records(view),
        )
        for view in views_of(log)
        if view.base_offset < limit
    ]


def let_kafka_compact(kafka):
    kafka.settings["log.cleaner.enable"] = "true"
    for node in kafka.nodes:
        kafka.write_properties(node)
    kafka.start()
    kafka.wait_ready()
    checkpoint = kafka.nodes[0].directory / "cleaner-offset-checkpoint"
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not (checkpoint.exists() and "life 0" in checkpoint.read_text()):
        assert time.monotonic() < deadline, "Apache Kafka did not compact"
        time.sleep(0.1)
    kafka.stop()

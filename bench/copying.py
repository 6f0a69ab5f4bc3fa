"""The rate of consuming, transforming and producing exactly once: records of one topic are copied to another, with
their offsets in the transaction.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.accounting import measured
from bench.clusters import Cluster, Opener, settings_for
from bench.committers import CALL_SECONDS
from bench.load import create_topic, produce
from bench.results import Figure
from bench.sizes import sized
from bench.transactions import SETTINGS, read_back

RECORDS, RECORD_BYTES = sized(300_000, 3_000), 1024
RECORDS_EACH = sized(5_000, 1_000)  # records in a transaction


def copying_bench(open_cluster: Opener, system: str) -> list[Figure]:
    figures = []
    for fsync in (True, False):
        kind = "fsync" if fsync else "write-behind"
        with open_cluster(1, 1, {**SETTINGS, **settings_for(system, fsync=fsync)}) as cluster:
            label = f"{RECORDS_EACH:,} records of 1 KiB each, {kind}"
            figures += _copied(cluster, label, system)
    return figures


def _copied(cluster: Cluster, label: str, system: str) -> list[Figure]:
    for topic in ("source", "target"):
        create_topic(cluster, topic, 1, 1)
    produce(cluster, "source", 1, size=RECORD_BYTES, records=RECORDS)
    with measured(cluster.pids()) as usage:
        _copy(cluster)
    read_back(cluster, "target", RECORDS)
    megabytes = RECORDS * RECORD_BYTES / 1e6
    cpu = usage.cpu_seconds / megabytes * 1000
    return [
        Figure("exactly-once", f"{label}: copied", "MB/s", "higher", system, megabytes / usage.seconds),
        Figure("exactly-once", f"{label}: broker CPU", "s/GB", "lower", system, cpu),
    ]  # fmt: skip


def _copy(cluster: Cluster) -> None:
    common = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
    consumer = Consumer(
        {
            **common,
            "group.id": "copiers",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    producer = Producer({**common, "transactional.id": "copier", "linger.ms": 5})
    producer.init_transactions(CALL_SECONDS)
    consumer.assign([TopicPartition("source", 0, 0)])
    done, deadline = 0, time.monotonic() + 4 * CALL_SECONDS
    while done < RECORDS:
        assert time.monotonic() < deadline, f"{done} of {RECORDS} copied"
        messages = [
            message for message in consumer.consume(RECORDS_EACH, 1.0) if message.error() is None
        ]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce("target", value=message.value(), partition=0)
        producer.send_offsets_to_transaction(
            consumer.position([TopicPartition("source", 0)]),
            consumer.consumer_group_metadata(),
            CALL_SECONDS,
        )
        producer.commit_transaction(CALL_SECONDS)
        done += len(messages)
    consumer.close()

"""A stream from brokers reads every offset once, although its driver is killed twenty times, and brokers, too."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from tests.cluster.processes import ROOT, LocalCluster
from tests.librdkafka import AdminClient, Producer

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

JOB = Path(__file__).with_name("spark_stream_job.py")
KILLS = 20
PARTITIONS = 3
# The number of micro-batches that a driver completes before it is killed.
BATCHES_MAX = 3
SECONDS = 120


class Writing(threading.Thread):
    """Writes until the event is set; a record's value contains its partition and offset."""

    def __init__(self, bootstrap):
        super().__init__()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
        )
        self.over = threading.Event()
        self.written = 0
        self.failed = []

    def run(self):
        while not self.over.wait(0.02):
            for partition in range(PARTITIONS):
                value = f"{partition}-{self.written}"
                self._producer.produce("orders", value, partition=partition, on_delivery=self._done)
            self.written += 1
            self._producer.poll(0)
        assert self._producer.flush(SECONDS) == 0

    def _done(self, error, _message):
        if error is not None:
            self.failed.append(error)


def start(bootstrap, folder, how):
    return subprocess.Popen(
        [sys.executable, str(JOB), bootstrap, str(folder), how],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )


def kill_after(process, batches):
    """Kills the driver and its JVM with SIGKILL, after the given number of micro-batches."""
    for _ in range(batches):
        assert process.stdout.readline(), "the query ended by itself"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_stream_reads_every_offset_once(tmp_path):
    chance = random.Random(13)
    with LocalCluster(tmp_path / "cluster", "--controllers", "1", "--brokers", "3") as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(SECONDS)
        cluster.wait_for_topic("orders")
        writing = Writing(cluster.bootstrap)
        writing.start()
        brokers = sorted(cluster.brokers())
        try:
            for number in range(KILLS):
                process = start(cluster.bootstrap, tmp_path, "follow")
                broker = brokers[number % len(brokers)]
                if number % 2:
                    cluster.kill(broker)
                kill_after(process, chance.randint(0 if number else 1, BATCHES_MAX))
                if number % 2:
                    cluster.restart(broker)
        finally:
            writing.over.set()
            writing.join()
        assert writing.failed == []
        cluster.wait_for_topic("orders")
        with start(cluster.bootstrap, tmp_path, "drain") as process:
            assert process.wait(SECONDS) == 0
    told = json.loads((tmp_path / "told.json").read_text())
    count = writing.written
    assert told == [
        {"partition": p, "rows": count, "offsets": count, "first": 0, "last": count - 1, "wrong": 0}
        for p in range(PARTITIONS)
    ]
    assert count > 1000

"""The availability of a cluster during upgrades: the longest time in which a partition answered no producer and no
consumer.
"""

import threading
import time

from tests.librdkafka import Consumer, Producer

RECORDS_PER_SECOND = 50
FLUSH_SECONDS = 60
# An election of a leader takes less than a second; the rest is for a busy machine.
GAP_SECONDS_MAX = 10.0


class Available:
    """A block during which each of `partitions` of the topic receives records with acks=all, which a member of the
    group `available` reads. The end of the block checks that each acknowledged record was read, and in its order.
    """

    def __init__(self, bootstrap, topic, partitions):
        self._topic, self._partitions = topic, partitions
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "available",
                "auto.offset.reset": "earliest",
            }
        )
        self._acked = {partition: [] for partition in range(partitions)}
        self._read = {partition: [] for partition in range(partitions)}
        now = time.monotonic()
        self._answered = {(role, p): now for role in ("write", "read") for p in self._acked}
        self._gaps = {}
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._write, self._consume)]

    def __enter__(self):
        self._consumer.subscribe([self._topic])
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, error, *_):
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if error is None:
            assert self._producer.flush(FLUSH_SECONDS) == 0
            deadline = time.monotonic() + FLUSH_SECONDS
            while self._read_count() < self.acked and time.monotonic() < deadline:
                self._read_some()
            for partition, values in self._acked.items():
                assert values == sorted(set(self._read[partition])), f"partition {partition}"
        self._consumer.close()

    @property
    def acked(self):
        return sum(map(len, self._acked.values()))

    def is_read(self):
        """Returns whether records of each partition were read."""
        return all(self._read.values())

    def gap(self):
        """Returns the longest time without an answer since the last call, in seconds."""
        now = time.monotonic()
        gaps, self._gaps = self._gaps, {}
        open_ = [now - at for at in self._answered.values()]
        return max(*gaps.values(), *open_)

    def _answer(self, role, partition):
        now = time.monotonic()
        key = role, partition
        self._gaps[key] = max(self._gaps.get(key, 0.0), now - self._answered[key])
        self._answered[key] = now

    def _write(self):
        number = 0
        while not self._stopped.wait(1 / RECORDS_PER_SECOND):
            for partition in self._acked:
                self._producer.produce(
                    self._topic, b"%d" % number, partition=partition, on_delivery=self._delivered
                )
            self._producer.poll(0)
            number += 1

    def _delivered(self, error, message):
        assert error is None, error
        self._acked[message.partition()].append(int(message.value()))
        self._answer("write", message.partition())

    def _consume(self):
        while not self._stopped.is_set():
            self._read_some()

    def _read_some(self):
        for message in self._consumer.consume(1000, 0.2):
            if message.error() is None:
                self._read[message.partition()].append(int(message.value()))
                self._answer("read", message.partition())

    def _read_count(self):
        return sum(len(set(values)) for values in self._read.values())

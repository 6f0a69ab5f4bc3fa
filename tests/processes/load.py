"""A producer in the background that remembers what was acknowledged, and the reader (another client) that judges."""

from __future__ import annotations

import itertools
import threading
import time

from confluent_kafka import Producer

from tests.clients.kafka_python import KafkaPython
from tests.local_cluster import until

PACE_SECONDS = 0.002
IN_FLIGHT_MAX = 2000


class Load:
    """Idempotent acks=all producing until the block ends. `acked`: value by (partition, offset)."""

    def __init__(self, bootstrap, topic):
        self.acked, self.failed, self.ack_times = {}, [], []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 2,
            }
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        self.wait_for_acks()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _run(self):
        for number in itertools.count():
            if self._stop.is_set():
                break
            if len(self._producer) < IN_FLIGHT_MAX:
                self._producer.produce(self._topic, b"%d" % number, on_delivery=self._delivered)
            self._producer.poll(PACE_SECONDS)
        self._producer.flush(30)

    def _delivered(self, error, message):
        if error is None:
            self.acked[message.partition(), message.offset()] = message.value()
            self.ack_times.append(time.monotonic())
        else:
            self.failed.append(error.str())

    def wait_for_acks(self, seconds=20.0):
        """Until records that were produced from now on are acknowledged in every partition that goes on."""
        began = len(self.acked)
        until(lambda: len(self.acked) > began + 50, f"acknowledgements; {self.failed[:3]}", seconds)

    def longest_silence(self):
        return max(b - a for a, b in itertools.pairwise(self.ack_times))


def lost(bootstrap, topic, partitions, acked):
    """Acknowledged records that another client does not find where they were acknowledged."""
    reader = KafkaPython(bootstrap)
    try:
        ends = {p: reader.ends(topic, p) for p in range(partitions)}
        count = sum(end - start for start, end in ends.values())
        start = {p: first for p, (first, end) in ends.items() if end > first}
        found = {(r.partition, r.offset): r.value for r in reader.read(topic, start, count)}
    finally:
        reader.close()
    return {place: value for place, value in acked.items() if found.get(place) != value}

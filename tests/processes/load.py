"""A background producer that records acknowledgements, and a check by another client that no acknowledged record is
lost.
"""

from __future__ import annotations

import itertools
import os
import threading

from tests.clients.kafka_python import KafkaPython
from tests.cluster.processes import WAIT_SECONDS, until
from tests.librdkafka import Producer

# A burst costs the nodes one request for each leader: single records of the same rate would keep two cores busy.
BURST_RECORDS, PACE_SECONDS = 10, 0.02
IN_FLIGHT_MAX = 2000


class Load:
    """Produces with idempotence and acks=all until the block ends. `acked` maps each value, which is sent once, to
    (partition, offset). The offset is None if the response was lost, but the client knows from the accepted next batch
    that this one was written.
    """

    def __init__(self, bootstrap, topic, partitions):
        self.acked, self.failed, self._acks = {}, [], [0] * partitions
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                # requests to a frozen broker time out sooner than after librdkafka's defaults of 30 and 60 s
                "request.timeout.ms": 2000,
                "socket.timeout.ms": 3000,
            }
        )
        self._topic = topic
        self._name = os.urandom(4).hex().encode()  # earlier producers have written to the topic
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
        numbers = itertools.count()
        while not self._stop.is_set():
            if len(self._producer) < IN_FLIGHT_MAX:
                for number in itertools.islice(numbers, BURST_RECORDS):
                    value = b"%s-%d" % (self._name, number)
                    self._producer.produce(self._topic, value, on_delivery=self._delivered)
            self._producer.poll(PACE_SECONDS)
        self._producer.flush(WAIT_SECONDS)

    def _delivered(self, error, message):
        if error is None:
            self.acked[message.value()] = (message.partition(), message.offset())
            self._acks[message.partition()] += 1
        else:
            self.failed.append(error.str())

    def wait_for_acks(self):
        """Waits until every partition has a new acknowledgement."""
        before = self._acks.copy()

        def all_went_on():
            return all(now > then for now, then in zip(self._acks, before, strict=True))

        until(all_went_on, f"acknowledgements in every partition; {self.failed[:3]}")


def lost(bootstrap, topic, partitions, acked):
    """Returns the acknowledged records that another client does not find at their partition and offset."""
    reader = KafkaPython(bootstrap)
    try:
        ends = {p: reader.ends(topic, p) for p in range(partitions)}
        count = sum(end - start for start, end in ends.values())
        start = {p: first for p, (first, end) in ends.items() if end > first}
        found = {r.value: (r.partition, r.offset) for r in reader.read(topic, start, count)}
    finally:
        reader.close()
    return {
        value: place
        for value, place in acked.items()
        if value not in found or place not in (found[value], (found[value][0], None))
    }

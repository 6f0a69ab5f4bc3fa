"""Observations of clients during a chaos run, and their comparison with the final content of the log. Every value is
unique (`producer/number`). An acknowledged value must be at its partition and offset. No value may be there twice,
because the producers are idempotent. A value with an unknown outcome (timeout) may be there or not.
"""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Self

from confluent_kafka import KafkaError, Producer

from trimaran.demo.workload import read_everything

PACE_SECONDS = 0.002
FLUSH_SECONDS_MAX = 60.0
# the maximum of unacknowledged records of a producer while the cluster is unavailable
IN_FLIGHT_MAX = 20_000


@dataclass
class History:
    """Outcomes: the acknowledged partition and offset by value, written only by the producers' callbacks."""

    acked: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    unknown: int = 0
    ack_times: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)

    def record(self, error: KafkaError | None, message) -> None:
        if error is None:
            self.acked[message.value()] = (message.partition(), message.offset())
            self.ack_times.append(time.monotonic())
        else:
            self.unknown += 1
            self.errors[error.name()] = self.errors.get(error.name(), 0) + 1

    def wait_for_ack_after(self, moment: float, seconds_max: float) -> None:
        while not (self.ack_times and self.ack_times[-1] > moment):
            if time.monotonic() > moment + seconds_max:
                raise AssertionError(
                    f"nothing acknowledged for {seconds_max} s after the last restart: {self.errors}"
                )
            time.sleep(0.05)

    def longest_silence(self) -> float:
        times = sorted(self.ack_times)
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


class ProducerLoad:
    """Runs idempotent producers with acks=all in threads until the block ends, and then flushes them."""

    def __init__(self, bootstrap: str, topic: str, producers: int, history: History) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(bootstrap, topic, number, history))
            for number in range(producers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _produce(self, bootstrap: str, topic: str, number: int, history: History) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "log_level": 0,
            }
        )
        count = 0
        while not self._stop.is_set():
            for _ in range(10 if len(producer) < IN_FLIGHT_MAX else 0):
                producer.produce(topic, b"%d/%d" % (number, count), on_delivery=history.record)
                count += 1
            producer.poll(PACE_SECONDS)
        producer.flush(FLUSH_SECONDS_MAX)
        history.unknown += len(producer)


@dataclass(frozen=True)
class Verdict:
    """Counts of errors: `lost` values were acknowledged but are missing, `moved` ones were acknowledged at another
    offset, and `duplicates` occur twice.
    """

    lost: int
    moved: int
    duplicates: int


def audit(bootstrap: str, topic: str, partitions: int, history: History) -> Verdict:
    """Reads everything and returns the verdict. Raises TimeoutError if a partition cannot be read to its end."""
    places: dict[bytes, list[tuple[int, int]]] = {}
    for place, value in read_everything(bootstrap, topic, partitions):
        places.setdefault(value, []).append(place)
    lost = sum(value not in places for value in history.acked)
    moved = sum(
        value in places and place not in places[value] for value, place in history.acked.items()
    )
    return Verdict(lost, moved, sum(len(found) > 1 for found in places.values()))

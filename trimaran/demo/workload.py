"""The clients of the demo: a producer that remembers acknowledged records, and consumers that read them back
(confluent-kafka).

Acknowledged records go into a `Ledger`: partition, offset and a checksum of the value. No acknowledged record is lost
if every entry of the ledger is found again, at its offset, with its checksum.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any, Self

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

FLUSH_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 90.0


@dataclass(slots=True)
class Ledger:
    """Acknowledged records. Deliveries arrive in the producer's callback thread, one at a time."""

    acked: dict[tuple[int, int], int] = field(default_factory=dict)
    ack_times: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        self.acked[message.partition() or 0, message.offset() or 0] = zlib.crc32(
            message.value() or b""
        )
        self.ack_times.append(time.monotonic())

    def first_ack_after(self, moment: float) -> float | None:
        """Returns the seconds from `moment` to the first acknowledgement after it."""
        return next((t - moment for t in self.ack_times if t > moment), None)

    def longest_gap(self, since: float) -> float:
        """Returns the longest time without an acknowledgement after `since`, in seconds."""
        times = [since, *(t for t in self.ack_times if t > since)]
        return max((b - a for a, b in pairwise(times)), default=0.0)

    def missing(self, found: dict[tuple[int, int], int]) -> int:
        """Returns the number of acknowledged records that are missing in `found`, or differ there."""
        return sum(found.get(place) != checksum for place, checksum in self.acked.items())


def lines_of(path: Path, count: int) -> Iterator[bytes]:
    """Yields `count` lines of a file, which is read repeatedly if necessary; empty lines are omitted."""
    lines = [line for line in path.read_bytes().splitlines() if line.strip()]
    return islice(cycle(lines), count)


def open_producer(bootstrap: str, **settings: Any) -> Producer:
    """Returns a producer that waits for the whole ISR."""
    return Producer(
        {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, "log_level": 2, **settings}
    )


def produce_all(bootstrap: str, topic: str, values: Iterable[bytes], ledger: Ledger) -> None:
    """Produces every value and returns when each is acknowledged or has failed."""
    producer = open_producer(bootstrap)
    for value in values:
        while True:
            try:
                producer.produce(topic, value, on_delivery=ledger.on_delivery)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    producer.flush(FLUSH_SECONDS_MAX)


class SteadyProducer:
    """Produces in the background at a steady rate until stopped, whatever happens to the cluster."""

    def __init__(
        self, bootstrap: str, topic: str, values: Iterable[bytes], per_second: int
    ) -> None:
        self.ledger = Ledger()
        self._producer = open_producer(bootstrap)
        self._topic, self._values, self._per_second = topic, values, per_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady-producer")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for_ack_after(self, moment: float, seconds_max: float) -> float | None:
        """Waits until a record is acknowledged after `moment`, and returns the seconds until then; None if no record
        was acknowledged.
        """
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            if (seconds := self.ledger.first_ack_after(moment)) is not None:
                return seconds
            self._stop.wait(0.005)
        return None

    def _run(self) -> None:
        period = 0.005
        share = max(1, int(self._per_second * period))
        values = iter(self._values)
        while not self._stop.is_set():
            for value in islice(values, share):
                self._producer.produce(self._topic, value, on_delivery=self.ledger.on_delivery)
            self._producer.poll(period)
        self._producer.flush(FLUSH_SECONDS_MAX)


def consume_as_group(
    bootstrap: str, topic: str, group: str, members: int, expected: int
) -> list[int]:
    """Reads a topic with a consumer group until `expected` records were read; returns the number for each member.

    No member reads before all have partitions: one might have read everything before the next has joined.
    """
    counts, shares, done = [0] * members, [0] * members, threading.Event()

    def member(index: int) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 2,
            }
        )
        is_paused = False

        def on_assign(consumer: Consumer, partitions: list[TopicPartition]) -> None:
            nonlocal is_paused
            consumer.assign(partitions)
            shares[index] = len(partitions)
            is_paused = not all(shares)  # librdkafka keeps a paused state across assignments
            consumer.pause(partitions) if is_paused else consumer.resume(partitions)

        consumer.subscribe([topic], on_assign=on_assign)
        while not done.is_set():
            if is_paused and all(shares):
                consumer.resume(consumer.assignment())
                is_paused = False
            batch = consumer.consume(5000, 0.1)
            counts[index] += sum(message.error() is None for message in batch)
            if sum(counts) >= expected:
                done.set()
        consumer.commit(asynchronous=False) if counts[index] else None
        consumer.close()

    _run_threads([partial(member, i) for i in range(members)], done)
    return counts


def _run_threads(work: list[Callable[[], None]], done: threading.Event) -> None:
    threads = [threading.Thread(target=w) for w in work]
    for thread in threads:
        thread.start()
    done.wait(READ_SECONDS_MAX)
    done.set()
    for thread in threads:
        thread.join()


def read_everything(
    bootstrap: str, topic: str, partitions: int
) -> Iterator[tuple[tuple[int, int], bytes]]:
    """Returns every record of the topic, from the beginning to the end of every partition: `((partition, offset),
    value)`.

    Raises:
        TimeoutError: an end was not reached within `READ_SECONDS_MAX`.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "audit",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
    ended: set[int] = set()
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        while len(ended) < partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only partitions {sorted(ended)} could be read to their end")
            for message in consumer.consume(5000, 0.2):
                partition, error = message.partition() or 0, message.error()
                if error is None:
                    yield (partition, message.offset() or 0), message.value() or b""
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public name for it
                    ended.add(partition)
    finally:
        consumer.close()

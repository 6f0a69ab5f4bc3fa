"""Load for a cluster, measured as its users see it: several clients in threads, each with one request in flight.

It measures the cluster more than the client: a batch is built once and sent repeatedly, and only the headers of fetched
batches are read. Latency is the time from sending a request to its response; with a rate, from the time at which it was
due, so that a stalled cluster does not improve its own measurement.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trimaran.client.reader import PartitionReader
from trimaran.errors.refused import Needs, check
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.wire.client.destinations import LeaderNode
from trimaran.wire.client.response_checks import single_item
from trimaran.wire.identity import Offset, TopicPartition
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

if TYPE_CHECKING:
    from trimaran.log.codecs.compression import Compression
    from trimaran.wire.blocking import BlockingClient

Connect = Callable[[], "AbstractContextManager[BlockingClient]"]
PERCENTILES = (50.0, 95.0, 99.0, 99.9)
_DIGITS = 3  # the digits of a latency that are kept: 900 counts for each power of ten suffice for a run of days


@dataclass(slots=True)
class Latencies:
    """Counts latencies in seconds by their first digits, with bounded memory and an error below 1 %."""

    counts: Counter[float] = field(default_factory=Counter)

    def add(self, seconds: float) -> None:
        self.counts[float(f"{seconds:.{_DIGITS - 1}e}")] += 1

    def percentile(self, percent: float) -> float:
        """Returns the latency that `percent` of the requests did not exceed; 0 without requests."""
        left = math.ceil(self.counts.total() * percent / 100)
        for seconds in sorted(self.counts):
            left -= self.counts[seconds]
            if left <= 0:
                return seconds
        return 0.0

    def as_ms(self) -> dict[str, float]:
        """Returns the mean, percentiles and the maximum in milliseconds."""
        total = self.counts.total()
        mean = sum(seconds * n for seconds, n in self.counts.items()) / total if total else 0.0
        found = {"mean": mean}
        found |= {f"p{percent:g}": self.percentile(percent) for percent in PERCENTILES}
        found["max"] = max(self.counts, default=0.0)
        return {name: round(seconds * 1000, 3) for name, seconds in found.items()}


class Load:
    """One run. `begin` starts the clients; the caller reads the figures until the end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._threads: list[threading.Thread] = []
        self._stopped = threading.Event()
        self.error: BaseException | None = None
        self.records = self.bytes = self.requests = 0
        self._latencies = Latencies()
        self._recent = Latencies()

    def begin(self, jobs: list[Callable[[Load], None]]) -> None:
        """Runs each job in a thread; they end when `is_stopped`."""
        self._began = time.monotonic()
        for job in jobs:
            thread = threading.Thread(target=self._run, args=(job,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self, job: Callable[[Load], None]) -> None:
        try:
            job(self)
        except BaseException as error:  # noqa: BLE001 - it is the caller's, who waits in another thread
            self.error = self.error or error
            self.stop()

    def wait(self, seconds: float) -> bool:
        """Returns whether all clients ended within `seconds`."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        is_over = not any(thread.is_alive() for thread in self._threads)
        if is_over and self._ended is None:
            self._ended = time.monotonic()
        return is_over

    def stop(self) -> None:
        """Stops the clients after their current request."""
        self._stopped.set()

    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def pause_until(self, moment: float) -> None:
        """Pauses until a time of `time.monotonic`, or until the run is stopped."""
        self._stopped.wait(max(0.0, moment - time.monotonic()))

    def add(self, records: int, size: int, seconds: float) -> None:
        """Counts a request whose response has arrived."""
        with self._lock:
            self.records += records
            self.bytes += size
            self.requests += 1
            self._latencies.add(seconds)
            self._recent.add(seconds)

    def recent(self) -> Latencies:
        """Returns the figures for the requests since the last call."""
        with self._lock:
            found, self._recent = self._recent, Latencies()
            return found

    def figures(self) -> dict[str, Any]:
        """Returns the figures for the run so far; MB are 10^6 bytes."""
        with self._lock:
            seconds = max(1e-9, (self._ended or time.monotonic()) - self._began)
            return {
                "records": self.records,
                "bytes": self.bytes,
                "seconds": round(seconds, 3),
                "records_per_second": round(self.records / seconds, 1),
                "mb_per_second": round(self.bytes / 1e6 / seconds, 3),
                "requests": self.requests,
                "latency_ms": self._latencies.as_ms(),
            }


@dataclass(frozen=True, slots=True)
class Producing:
    """The load of producers: batches of `batch_records` incompressible records of `size` bytes."""

    topic: str
    size: int
    batch_records: int
    acks: int
    compression: Compression
    timeout_ms: int

    def batch(self, records: int) -> bytes:
        now_ms = time.time_ns() // 1_000_000
        made = (NewRecord(None, os.urandom(self.size), now_ms) for _ in range(records))
        return build_batch(made, compression=self.compression)


def produce(
    producing: Producing,
    connect: Connect,
    partitions: list[int],
    records: int,
    rate: float | None,
) -> Callable[[Load], None]:
    """Runs a client that sends `records` records to these partitions in turn, at most `rate` per second."""

    def job(load: Load) -> None:
        batch = producing.batch(producing.batch_records)
        with connect() as client:
            due = time.monotonic()
            for number, count in enumerate(_shares(records, producing.batch_records)):
                if load.is_stopped():
                    return
                load.pause_until(due)
                began = time.monotonic() if rate is None else due
                sent = batch if count == producing.batch_records else producing.batch(count)
                _send(client, producing, partitions[number % len(partitions)], sent)
                load.add(count, count * producing.size, time.monotonic() - began)
                due = due + count / rate if rate is not None else time.monotonic()

    return job


def _shares(records: int, batch_records: int) -> Iterator[int]:
    while records > 0:
        yield min(records, batch_records)
        records -= batch_records


def _send(client: BlockingClient, producing: Producing, partition: int, batch: bytes) -> None:
    produced = PartitionProduceData(index=partition, records=batch)
    request = ProduceRequest(
        acks=producing.acks,
        timeout_ms=producing.timeout_ms,
        topic_data=[TopicProduceData(name=producing.topic, partition_data=[produced])],
    )
    response = client.call(
        LeaderNode(TopicPartition(producing.topic, partition)), request, version=9
    )
    result = single_item(single_item(response.responses, "topic").partition_responses, "partition")
    needs = Needs("WRITE", topic=producing.topic)
    check(result.error_code, result.error_message, needs=needs)


def consume(
    topic: str, connect: Connect, ranges: dict[int, tuple[Offset, Offset]], records: int | None
) -> Callable[[Load], None]:
    """Runs a client that reads partitions in turn, each from the first offset to the second; all clients together stop
    after `records` records.
    """

    def job(load: Load) -> None:
        left = deque((p, begin) for p, (begin, end) in ranges.items() if begin < end)
        with connect() as client:
            reader = PartitionReader(client, (), is_committed=False)
            while left and not load.is_stopped():
                partition, offset = left.popleft()
                began = time.monotonic()
                where = TopicPartition(topic, partition)
                found = [fetched.batch for fetched in reader.fetch(where, offset, wait=True)]
                took = time.monotonic() - began
                count, size = (
                    sum(batch.count for batch in found),
                    sum(batch.size for batch in found),
                )
                load.add(count, size, took)
                reached = found[-1].next_offset if found else offset
                if reached < ranges[partition][1]:
                    left.append((partition, reached))
                if records is not None and load.records >= records:
                    load.stop()

    return job

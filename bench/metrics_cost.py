"""What metrics cost: CPU of a broker that serves them against one that does not, side by side in short turns.

`python -m bench.metrics_cost [PAIRS]`. Both brokers run all the time. They are given the same requests in turn, some
hundredths of a second each, and the turns that were least disturbed are compared. What else the machine does slows down
both alike, so the figure holds on one that is busy. A scrape is measured apart: what it takes is a share of
the time between two, whatever the load.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.crowds import FETCH, PRODUCE, answer, connect, frame
from log.batches.records import NewRecord, build_batch
from node.runtime.clock import now_ms
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "t"
RECORDS, VALUE_BYTES = 100, 100  # of a batch, which is one request
REQUESTS, UNDER_WAY = 100, 4  # of a turn
WARM_UP_TURNS = 5
RESAMPLED = 1000  # for the interval, by bootstrap
SCRAPES, SCRAPE_SECONDS = 50, 15.0
_OF_A_PROCESS = 2  # of the kernel's numbers of CPU clocks: user and system time of all threads


@dataclass(frozen=True, slots=True)
class Broker:
    """`metrics` is its address, or `-` where it has none."""

    pid: int
    port: int
    metrics: str

    def cpu_seconds(self) -> float:
        return time.clock_gettime((~self.pid << 3) | _OF_A_PROCESS)


def main(pairs: int) -> None:
    """Prints the difference of producing and of consuming, and what a scrape takes."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        with _broker(root / "without") as without, _broker(root / "with", "--metrics") as beside:
            for name, request in (("produce", _produce()), ("consume", _consume())):
                found = _compared(without, beside, request, pairs)
                print(f"{name}: {_told(found)}", flush=True)
            took = _of_scrapes(beside)
            print(
                f"a scrape: {took * 1000:.2f} ms, {took / SCRAPE_SECONDS * 100:.3f} % of a core when each "
                f"{SCRAPE_SECONDS:.0f} s"
            )


def _told(pairs: list[tuple[float, float]]) -> str:
    rng = random.Random(0)
    again = sorted(_change(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLED))
    low, high = again[RESAMPLED // 40], again[-RESAMPLED // 40]
    of_one = _quick([without for without, _ in pairs]) / REQUESTS
    return (
        f"{_change(pairs):+.2f} % with metrics (95 %: {low:+.2f} to {high:+.2f}; "
        f"{len(pairs)} pairs), of {of_one * 1e6:.0f} us a request"
    )


def _change(pairs: list[tuple[float, float]]) -> float:
    """In per cent."""
    return (_quick([beside for _, beside in pairs]) / _quick([one for one, _ in pairs]) - 1) * 100


def _quick(times: list[float]) -> float:
    """Of the quickest tenth the slowest: what else runs only ever adds."""
    return sorted(times)[len(times) // 10]


def _compared(
    without: Broker, beside: Broker, request: bytes, pairs: int
) -> list[tuple[float, float]]:
    """CPU seconds of both for the same turn."""
    turns = {one: _turns(one, request) for one in (without, beside)}
    for _ in range(WARM_UP_TURNS):
        for one in turns.values():
            one()
    found = []
    for number in range(pairs):
        order = (without, beside) if number % 2 else (beside, without)
        took = {one: turns[one]() for one in order}
        found.append((took[without], took[beside]))
    return found


def _turns(broker: Broker, request: bytes) -> Callable[[], float]:
    sock = connect(broker.port)

    def turn() -> float:
        begun = broker.cpu_seconds()
        sock.sendall(request * UNDER_WAY)
        for _ in range(REQUESTS - UNDER_WAY):
            answer(sock)
            sock.sendall(request)
        for _ in range(UNDER_WAY):
            answer(sock)
        return broker.cpu_seconds() - begun

    return turn


def _produce() -> bytes:
    records = [NewRecord(None, bytes(VALUE_BYTES), now_ms()) for _ in range(RECORDS)]
    data = [PartitionProduceData(index=0, records=bytes(build_batch(records)))]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    return frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), PRODUCE)


def _consume() -> bytes:
    """The first batch of the topic."""
    most = RECORDS * VALUE_BYTES
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=most)
    topics = [FetchTopic(topic=TOPIC, partitions=[part])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=most, topics=topics)
    return frame(request, FETCH)


def _of_scrapes(broker: Broker) -> float:
    """CPU seconds of one."""
    begun = broker.cpu_seconds()
    for _ in range(SCRAPES):
        with urllib.request.urlopen(f"http://{broker.metrics}/metrics") as text:
            text.read()
    return (broker.cpu_seconds() - begun) / SCRAPES


def _trimaran(*words: str | Path) -> str:
    command = [sys.executable, "-m", "trimaran", *map(str, words)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@contextmanager
def _broker(data: Path, *options: str) -> Iterator[Broker]:
    """One with a controller beside it, and a topic of one partition."""
    size = ("--controllers", "1", "--brokers", "1", "--data", data, "-o", "json")
    state = json.loads(_trimaran("up", "-d", *size, *options))
    try:
        _trimaran("topics", "create", TOPIC, "-p", "1", "-r", "1", "-b", state["bootstrap"])
        node = next(node for node in state["nodes"] if node["role"] == "broker")
        port = int(node["address"].rpartition(":")[2])
        yield Broker(node["pid"], port, node["metrics"])
    finally:
        _trimaran("down", "-q", "--data", data)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)

"""The cost of a feature for one node: CPU of its process for the same requests with and without it, in short turns.

Two brokers of the same code differ by 3 to 6 % of CPU, by hashes and memory layout; switching the feature in one
process avoids that difference. Turns take a few hundredths of a second each, so other load slows down both equally, and
the fastest tenth of each is compared.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import trio

from bench.crowds import FETCH, PRODUCE, connect, frame, read_response
from bench.sizes import sized
from tests.cluster.in_process import Cluster, cluster
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "t"
BROKER = 11
RECORDS, VALUE_BYTES = 100, 100  # records of a batch, which is one request
REQUESTS, UNDER_WAY = 100, 4  # requests of a turn
WARM_UP_TURNS = sized(5, 1)
PAIRS = sized(400, 2)
RESAMPLED = 1000  # for the interval, by bootstrap
CREATE_TOPICS_VERSION = 5

Switch = Callable[[bool], object]


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs of turns: their CPU seconds without and with the feature."""

    pairs: list[tuple[float, float]]

    def summary(self) -> str:
        """Returns the difference in per cent, its 95 % interval, and the cost of a request without the feature."""
        rng = random.Random(0)
        again = sorted(
            _change(rng.choices(self.pairs, k=len(self.pairs))) for _ in range(RESAMPLED)
        )
        low, high = again[RESAMPLED // 40], again[-RESAMPLED // 40]
        of_one = _quick([without for without, _ in self.pairs]) / REQUESTS
        return (
            f"{_change(self.pairs):+.2f} % (95 %: {low:+.2f} to {high:+.2f}; "
            f"{len(self.pairs)} pairs), of {of_one * 1e6:.0f} us a request"
        )


@asynccontextmanager
async def one_node(root: Path, **settings: object) -> AsyncIterator[Cluster]:
    """Runs a controller and a broker in this process, with a topic of one partition."""
    async with cluster(root, **settings) as running:
        topic = CreatableTopic(
            name=TOPIC, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        request = frame(
            CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CREATE_TOPICS_VERSION
        )
        await trio.to_thread.run_sync(_ask_once, _port(running), request)
        await running.seen(lambda image: TOPIC in image.topics.by_name)
        yield running


async def compared(running: Cluster, request: bytes, switch: Switch, pairs: int) -> Found:
    """Compares turns; `switch` is called between two turns, with whether the feature is to be on."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    client = context.Process(target=_client, args=(_port(running), request, theirs), daemon=True)
    client.start()

    async def turn(*, is_on: bool) -> float:
        switch(is_on)
        begun = time.process_time()
        ours.send(True)
        await trio.to_thread.run_sync(ours.recv)
        return time.process_time() - begun

    try:
        for number in range(2 * WARM_UP_TURNS):
            await turn(is_on=bool(number % 2))
        found = []
        for number in range(pairs):
            first = bool(number % 2)
            took = {is_on: await turn(is_on=is_on) for is_on in (first, not first)}
            found.append((took[False], took[True]))
        return Found(found)
    finally:
        switch(False)
        client.kill()
        client.join()


def produce_request() -> bytes:
    """Returns a Produce request with a batch of a hundred records and `acks=1`."""
    records = [NewRecord(None, bytes(VALUE_BYTES), now_ms()) for _ in range(RECORDS)]
    data = [PartitionProduceData(index=0, records=bytes(build_batch(records)))]
    topics = [TopicProduceData(name=TOPIC, partition_data=data)]
    return frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), PRODUCE)


def fetch_request() -> bytes:
    """Returns a Fetch request for the first batch of the topic."""
    most = RECORDS * VALUE_BYTES
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=most)
    topics = [FetchTopic(topic=TOPIC, partitions=[part])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=most, topics=topics)
    return frame(request, FETCH)


def _client(port: int, request: bytes, pipe: Connection) -> None:
    """Runs a turn for each byte that it receives."""
    with connect(port) as sock:
        while pipe.recv():
            sock.sendall(request * UNDER_WAY)
            for _ in range(REQUESTS - UNDER_WAY):
                read_response(sock)
                sock.sendall(request)
            for _ in range(UNDER_WAY):
                read_response(sock)
            pipe.send(True)


def _ask_once(port: int, request: bytes) -> None:
    with connect(port) as sock:
        sock.sendall(request)
        read_response(sock)


def _port(running: Cluster) -> int:
    return running.brokers[BROKER].addresses["PLAINTEXT"][1]


def _quick(times: list[float]) -> float:
    """Returns the slowest of the fastest tenth, since other load can only add time."""
    return sorted(times)[len(times) // 10]


def _change(pairs: list[tuple[float, float]]) -> float:
    """Returns the change in per cent."""
    return (_quick([beside for _, beside in pairs]) / _quick([pair for pair, _ in pairs]) - 1) * 100

"""The effect of other clients on an honest one: its produce and fetch beside each crowd of `bench/crowds.py`.

One node each, controller and broker, with a listener for clients and one that requires a login; the honest client sends
a record and reads it back, every few milliseconds. All share one machine: a crowd has a lower priority, but still uses
its two cores. Marks: p99 at most five times the value without a crowd, at most 128 MiB more memory; a connection before
its login costs 64 KiB and lives for 10 s. The report names missed marks.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from bench.accounting import percentile, rss_mib
from bench.clusters import Opener, compile_packages
from bench.crowds import (
    BULK,
    CROWDS,
    FETCH,
    FILLED,
    HALF_OPEN,
    LIFE_SECONDS_MAX,
    PRODUCE,
    SECONDS,
    connect,
    fetch_frame,
    produce_frame,
    raise_descriptors,
    read_response,
)
from bench.results import Figure
from bench.sizes import sized
from tests.interop.authorization.peers import Peer, eventually
from trimaran.local.layout import FreePorts
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.fetch import FetchResponse
from trimaran.wire.messages.header import decode_response_header
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse

HONEST = "honest"
OTHER_TOPICS, PARTITIONS_EACH = sized(50, 5), 10
FILLED_BATCHES, FILLED_BYTES = 40, 900_000
WARM_UP_SECONDS, MEASURED_SECONDS = sized(6.0, 0.5), sized(10.0, 1.0)
PAUSE, MEMORY_PAUSE = 0.005, 0.25
RECORD_BYTES = 100
FACTOR_MARK, MEMORY_MARK, HALF_OPEN_KIB_MARK, HALF_OPEN_SECONDS_MARK = 5.0, 128.0, 64.0, 10.0
# The clock has discrete steps, and closing takes time.
CLOSING_SECONDS = 1.0


@dataclass
class Seen:
    """The latencies of the honest client, in seconds, and the peak memory of the node meanwhile, in MiB."""

    produced: list[float] = field(default_factory=list)
    fetched: list[float] = field(default_factory=list)
    memory: float = 0.0


class Honest:
    """One connection: writes and reads back a record at a time."""

    def __init__(self, port: int) -> None:
        self._socket = connect(port)
        self._produce = produce_frame(HONEST, RECORD_BYTES)

    def observe(self, pid: int, seconds: float = MEASURED_SECONDS) -> Seen:
        seen = Seen()
        end, memory_at = time.monotonic() + seconds, 0.0
        while (now := time.monotonic()) < end:
            if now >= memory_at:
                seen.memory = max(seen.memory, rss_mib(pid))
                memory_at = now + MEMORY_PAUSE
            began = time.perf_counter()
            offset = self._written()
            written = time.perf_counter()
            self._read(offset)
            seen.fetched.append(time.perf_counter() - written)
            seen.produced.append(written - began)
            time.sleep(PAUSE)
        return seen

    def _written(self) -> int:
        one = _produced(self._socket, self._produce)
        assert one.error_code == 0, one
        return one.base_offset

    def _read(self, offset: int) -> None:
        self._socket.sendall(fetch_frame(HONEST, offset, 1 << 20))
        data = read_response(self._socket)
        _, body = decode_response_header(data, 1, FETCH)
        (one,) = FetchResponse.decode(data[body:], FETCH).responses[0].partitions
        assert one.error_code == 0, one
        assert one.records, one


def fairness_bench(_open_cluster: Opener, system: str) -> list[Figure]:
    """Measures with a separate node, since `_open_cluster` opens none that requires logins."""
    raise_descriptors()
    compile_packages()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-fairness-")))
        ports = stack.enter_context(FreePorts())
        node = stack.enter_context(Peer(system, directory, ports).running(everyone=True))
        for listener in ("INTERNAL", "CLIENTS"):
            eventually(f"{listener} is open", partial(_is_open, node.ports[listener]))
        _make_topics(node)
        honest = Honest(node.ports["INTERNAL"])
        honest.observe(node.pid, WARM_UP_SECONDS)
        quiet = honest.observe(node.pid)
        found = _figures("quiet", system, quiet)
        for name in CROWDS:
            found += _beside(name, system, node, honest, quiet)
    return found


def _beside(name: str, system: str, node: Peer, honest: Honest, quiet: Seen) -> list[Figure]:
    before = rss_mib(node.pid)
    half_open = name == f"{HALF_OPEN:,} half-open"
    with _crowd(name, node.ports["CLIENTS" if half_open else "INTERNAL"]) as pipe:
        each = (rss_mib(node.pid) - before) * 1024 / HALF_OPEN
        seen = honest.observe(node.pid)
        life = pipe.recv() if half_open and pipe.poll(LIFE_SECONDS_MAX) else 0.0
    factor = max(
        percentile(seen.produced, 0.99) / percentile(quiet.produced, 0.99),
        percentile(seen.fetched, 0.99) / percentile(quiet.fetched, 0.99),
    )
    more = [
        ("p99 to quiet", "×", factor, FACTOR_MARK),
        ("memory above quiet", "MiB", max(0.0, seen.memory - quiet.memory), MEMORY_MARK),
    ]
    if half_open:
        more += [
            ("memory of each", "KiB", max(0.0, each), HALF_OPEN_KIB_MARK),
            ("lives for", "s", life, HALF_OPEN_SECONDS_MARK + CLOSING_SECONDS),
        ]
    for what, unit, value, mark in more:
        missed = f", the mark of {mark:g} is missed" if value > mark else ""
        print(f"bench: {name}: {what} {value:.1f} {unit}{missed}", file=sys.stderr, flush=True)
    told = [
        Figure("fairness", f"{name}: {what}", unit, "lower", system, value)
        for what, unit, value, _ in more
    ]
    return _figures(name, system, seen) + told


def _figures(name: str, system: str, seen: Seen) -> list[Figure]:
    return [
        Figure(
            *("fairness", f"{name}: {what} {label}", "ms", "lower", system),
            percentile(times, share) * 1000,
        )
        for what, times in (("produce", seen.produced), ("fetch", seen.fetched))
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


@contextmanager
def _crowd(name: str, port: int) -> Iterator:
    """Runs a crowd. Yields the pipe through which it may report more."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=CROWDS[name], args=(port, theirs), daemon=True)
    process.start()
    try:
        if not ours.poll(SECONDS):
            raise RuntimeError(f"{name} did not come to work")
        assert ours.recv()
        yield ours
        assert process.is_alive(), f"{name} ended before its time"
    finally:
        process.kill()
        process.join()


def _produced(sock: socket.socket, request: bytes) -> PartitionProduceResponse:
    sock.sendall(request)
    data = read_response(sock)
    _, body = decode_response_header(data, ProduceRequest.KEY, PRODUCE)
    (one,) = ProduceResponse.decode(data[body:], PRODUCE).responses[0].partition_responses
    return one


def _is_open(port: int) -> bool:
    try:
        connect(port).close()
    except ConnectionRefusedError:
        return False
    return True


def _make_topics(node: Peer) -> None:
    names = {HONEST: 1, FILLED: 1, BULK: 1}
    names |= {f"other-{number}": PARTITIONS_EACH for number in range(OTHER_TOPICS)}
    topics = [
        CreatableTopic(
            name=name, num_partitions=count, replication_factor=1, assignments=[], configs=[]
        )
        for name, count in names.items()
    ]

    def made() -> bool:
        """Creates the topic, not before the broker is unfenced."""
        response = node.root(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 5)
        return not any(topic.error_code for topic in response.topics)

    eventually("topics", made)
    wanted = [MetadataRequestTopic(name=name) for name in names]

    def led() -> bool:
        topics = node.root(MetadataRequest(topics=wanted), 9).topics
        return all(
            p.leader_id >= 0 and not p.error_code for t in topics for p in t.partitions
        ) and not any(topic.error_code for topic in topics)

    eventually("leaders of all", led)
    with connect(node.ports["INTERNAL"]) as sock:
        for name in (HONEST, BULK, FILLED):  # Kafka's metadata names a leader before it leads
            one = produce_frame(name, RECORD_BYTES)
            eventually(f"{name} is led", lambda one=one: not _produced(sock, one).error_code)
        for _ in range(FILLED_BATCHES):
            assert _produced(sock, produce_frame(FILLED, FILLED_BYTES)).error_code == 0

"""`./dev bench calls [--told NAME]`: Python calls, functions, files and memory of one request, from the bytes in to the
bytes out, in this process, warm.

Counts are the same on every machine, so `tests/test_calls.py` compares each row with its mark in `bench/calls.toml`.
Requests over the wire are sent one at a time by a thread of their own. Only the loop's thread is counted: all calls of
the nodes in this process, and of trio. A row has the minimum of each number over the repetitions, because timers run
during some of them. Rows that are `fsynced` have the median: the number of turns of the loop while a thread flushes
depends on the disk. `answered` are the calls until the last byte of the response goes to the socket. `calls` are those
until the loop waits again and no work is left. `--told NAME` prints the functions of a row, those called most often
first.
"""

from __future__ import annotations

import argparse
import gc
import socket
import struct
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from operator import attrgetter
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import trio

from bench import call_requests as requests
from bench.counting import Calls, Counts
from bench.mirror_calls import record_to_znode
from tests.broker.calls import call, connection, through_wire
from tests.cluster.data_side import Harness, open_harness, partition, topic, topic_id
from tests.cluster.in_process import Cluster, cluster, connected_to
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.produce import produce
from trimaran.log.durability.group_commit import LEFT_SECONDS_MAX
from trimaran.wire.client.conversation import Conversation
from trimaran.wire.identity import Address
from trimaran.wire.messages.create_topics import CreateTopicsRequest
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.schema import Message

MARKS = Path(__file__).with_suffix(".toml")
WARM, REPETITIONS = 30, 25
TIMEOUT_SECONDS = 30.0
# The loop is idle if it has called nothing for this time.
REST_SECONDS = 0.004
# After this time, no work of the previous request still waits for the next flush.
FSYNC_REST_SECONDS = LEFT_SECONDS_MAX + REST_SECONDS
FRAME_SIZE = struct.Struct(">i")


class Row(NamedTuple):
    """The calls of a request until its response and until the loop waits again, with the functions and files of the
    product, and its peak of memory in KiB.
    """

    answered: int
    calls: int
    functions: int
    files: int
    kib: float


Entered = dict[CodeType, CodeType | None]
Measured = dict[str, tuple[Row, Counts]]


def chosen(repetitions: list[Counts], kib: float, *, fsync: bool = False) -> tuple[Row, Counts]:
    """Returns the minimum of each number, because timers run during some repetitions; with `fsync` the median of each.
    Also returns the repetition with the fewest functions, or the median one.
    """
    place = len(repetitions) // 2 if fsync else 0
    marked, calls, functions, files = (
        sorted(numbers)[place]
        for numbers in zip(
            *(
                (counts.marked, counts.calls, counts.functions, counts.files)
                for counts in repetitions
            ),
            strict=True,
        )
    )
    # A timer that ran meanwhile adds functions, even after the response.
    counts = sorted(repetitions, key=attrgetter("functions", "marked", "calls"))[place]
    return Row(marked, calls, functions, files, round(kib, 1)), counts


@contextmanager
def no_collector() -> Iterator[None]:
    """Disables Python's cyclic garbage collector, which runs at unpredictable times."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def tracing(peaks: list[float]) -> Iterator[None]:
    """Adds to `peaks` the peak of memory within the block, in KiB above the memory before it."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield
        peaks.append((tracemalloc.get_traced_memory()[1] - before) / 1024)
    finally:
        tracemalloc.stop()


# Only the handler: from the decoded request to the response, or to the point where it waits.


async def handlers(root: Path) -> Measured:
    """Runs the handlers of one Produce and one Fetch for a partition."""
    harness = open_harness(root)
    harness.set_image(topic("t", partition()))
    try:
        return {
            "Produce, handler": _of_handler(_produce_handler(harness)),
            "Fetch, handler": _of_handler(_fetch_handler(harness)),
        }
    finally:
        harness.directory.close(broker_epoch=None)


def _produce_handler(harness: Harness) -> Iterator[Callable[[], object]]:
    request = through_wire(requests.produce_request(topic_id("t")), ProduceRequest.VERSIONS.high)
    view = request.topic_data[0].partition_data[0].records
    asked = call(request, ProduceRequest.VERSIONS.high, connection())
    while True:
        view[:8] = bytes(8)  # the last append wrote its offset into the batch
        steps = produce(request, harness.contexts.data, asked)
        yield partial(any, steps)  # up to its first wait; a C function, which is not counted


def _fetch_handler(harness: Harness) -> Iterator[Callable[[], object]]:
    request = through_wire(requests.fetch_request(topic_id("t")), FetchRequest.VERSIONS.high)
    asked = call(request, FetchRequest.VERSIONS.high, connection())
    while True:
        steps = fetch(request, harness.contexts.data, asked)
        yield partial(any, steps)  # up to its first wait; a C function, which is not counted


def _of_handler(handle: Iterator[Callable[[], object]]) -> tuple[Row, Counts]:
    for _ in range(WARM):
        next(handle)()
    repetitions, peaks = [], list[float]()
    calls = Calls()
    with no_collector():
        for _ in range(REPETITIONS):
            action = next(handle)
            with calls.counting():
                action()
            repetitions.append(calls.take())
        for _ in range(REPETITIONS):
            action = next(handle)
            with tracing(peaks):
                action()
    return chosen(
        [repetition._replace(marked=repetition.calls) for repetition in repetitions], min(peaks)
    )


# Over the wire.


def others_sleep() -> bool:
    """Whether each other thread of this process waits for an event, and not for a core or a disk (proc(5))."""
    own = str(threading.get_native_id())
    others = [task for task in Path("/proc/self/task").iterdir() if task.name != own]
    try:
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in others]
    except (FileNotFoundError, ProcessLookupError):
        return False  # one of them ends
    return set(states) <= {"S"}


class Client:
    """A connection with a blocking socket, not in the thread of the nodes."""

    def __init__(self, address: Address, calls: Calls, rest_before: float) -> None:
        """`rest_before` is how long the loop has rested when a request is counted, in seconds."""
        self.calls = calls
        self.rest_before = rest_before
        self.created = self.shared = 0
        self.topic_id: bytes | None = None
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.address = self.socket.getsockname()
        self._conversation: Conversation[int] = Conversation("calls")
        self._exchange(self._conversation.hello(0))
        response = self._conversation.receive(self._received())[1]
        self._conversation.negotiate(response)

    def ask(self, request: Message) -> Any:
        self._exchange(self._conversation.request(request, None, 0))
        return self._conversation.receive(self._received())[1]

    def counted(self, request: Message) -> tuple[Any, Counts]:
        frame = self._conversation.request(request, None, 0)
        self._rest(self.rest_before)
        self.calls.take()
        self._exchange(frame)
        received = self._received()
        self._rest()
        return self._conversation.receive(received)[1], self.calls.take()

    def traced(self, request: Message) -> tuple[Any, float]:
        frame, peaks = self._conversation.request(request, None, 0), list[float]()
        with tracing(peaks):
            self._exchange(frame)
            received = self._received()
            self._rest()
        return self._conversation.receive(received)[1], peaks[0]

    def _exchange(self, frame: bytearray) -> None:
        self.socket.sendall(FRAME_SIZE.pack(len(frame)) + frame)

    def _received(self) -> memoryview:
        (size,) = FRAME_SIZE.unpack(self.socket.recv(4, socket.MSG_WAITALL))
        return memoryview(self.socket.recv(size, socket.MSG_WAITALL))

    def _rest(self, seconds: float = REST_SECONDS) -> None:
        """Waits until the nodes are idle, as opposed to nodes that had no turn on a busy machine."""
        seen = -1
        while seen != self.calls.total or not others_sleep():
            seen = self.calls.total
            time.sleep(seconds)

    def is_written_by(self, function: Any) -> bool:
        """Returns whether a C function that the nodes called sends to this connection, or sends a piece of a file."""
        name, owner = function.__name__, getattr(function, "__self__", None)
        if name in ("send", "sendmsg"):  # generators and coroutines also have a `send`
            return isinstance(owner, socket.socket) and owner.getpeername() == self.address
        return bool(name == "sendfile")


class Walk(NamedTuple):
    """A kind of request; `next_request(client, last response)` returns the request of the next repetition."""

    next_request: Callable[[Client, Any], Message]


def _walked(client: Client, walk: Walk, fsync: bool) -> tuple[Row, Counts]:
    response = None
    for _ in range(WARM):
        response = client.ask(walk.next_request(client, response))
    repetitions, peaks = [], []
    for _ in range(REPETITIONS):
        response, counts = client.counted(walk.next_request(client, response))
        repetitions.append(counts)
    for _ in range(3):
        response, peak = client.traced(walk.next_request(client, response))
        peaks.append(peak)
    return chosen(repetitions, min(peaks), fsync=fsync)


async def over_the_wire(root: Path, brokers: int, walks: dict[str, Walk], fsync: bool) -> Measured:
    """Runs a controller and brokers in this process, and a client in a separate thread. The topic `t` has a replica on
    each broker. With `fsync` records are flushed before they are acknowledged.
    """
    calls = Calls()
    settings = {
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_replication_factor": 1,
    }
    settings |= {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    settings |= {"transaction_state_log_min_isr": 1, "share_coordinator_state_topic_min_isr": 1}
    settings |= {"share_coordinator_state_topic_replication_factor": 1}
    # No heartbeat of a broker falls between a request and its response.
    settings |= {"broker_heartbeat_interval_ms": 60_000, "broker_session_timeout_ms": 180_000}
    settings |= {"trimaran_log_fsync": "commit" if fsync else "none"}
    async with cluster(root, brokers=brokers, **settings) as found:
        leader = await _created(found, brokers)
        client = await trio.to_thread.run_sync(
            lambda: Client(
                found.brokers[leader].addresses["PLAINTEXT"],
                calls,
                FSYNC_REST_SECONDS if fsync else REST_SECONDS,
            )
        )
        measured: Measured = {}
        with no_collector(), calls.counting(lambda c: client.is_written_by(c) and calls.mark()):
            for name, walk in walks.items():
                measured[name] = await trio.to_thread.run_sync(_walked, client, walk, fsync)
        client.socket.close()
        return measured


async def _created(found: Cluster, replicas: int) -> int:
    """Creates the topic, and returns its leader."""
    async with connected_to(next(iter(found.brokers.values()))) as client:
        request = CreateTopicsRequest(topics=[requests.new_topic("t", replicas)], timeout_ms=10_000)
        await client.call(request, timeout=TIMEOUT_SECONDS)
    image = None
    for broker_id in found.brokers:
        image = await found.seen(lambda image: "t" in image.topics.by_name, broker_id)
    return image.topics.by_name["t"].partitions[0].leader


ONE_BROKER = {
    "Produce": Walk(requests.produce_to),
    "Fetch": Walk(requests.fetch_from),
    "Metadata of one topic": Walk(requests.metadata),
    "ConsumerGroupHeartbeat, steady": Walk(requests.heartbeat),
    "ShareGroupHeartbeat, steady": Walk(requests.share_heartbeat),
    "StreamsGroupHeartbeat, steady": Walk(requests.streams_heartbeat),
    "ShareFetch, with an acknowledgement": Walk(requests.share_fetch),
    "EndTxn": Walk(requests.end_txn),
    "CreateTopics, until applied": Walk(requests.create_topics),
}
ONE_BROKER_FSYNCED = {
    "Produce, fsynced": Walk(requests.produce_to),
    "EndTxn, fsynced": Walk(requests.end_txn),
}
THREE_BROKERS = {"Produce at RF 3, fsynced": Walk(requests.produce_to)}


def mirrored() -> tuple[Row, Counts]:
    """Measures a metadata record, from its commit to the transaction that kazoo receives."""
    calls, peaks = Calls(), list[float]()
    warm = [nullcontext() for _ in range(WARM)]
    counting = [calls.counting() for _ in range(REPETITIONS)]
    with no_collector():
        taken = trio.run(
            record_to_znode, calls, [*warm, *counting, *(tracing(peaks) for _ in range(3))]
        )
    return chosen(taken[WARM : WARM + REPETITIONS], min(peaks))


def measure() -> Measured:
    with tempfile.TemporaryDirectory() as root:
        paths = [Path(root) / name for name in ("handlers", "one", "fsynced", "three")]
        paths[0].mkdir()
        return {
            **trio.run(handlers, paths[0]),
            **trio.run(over_the_wire, paths[1], 1, ONE_BROKER, False),
            **trio.run(over_the_wire, paths[2], 1, ONE_BROKER_FSYNCED, True),
            **trio.run(over_the_wire, paths[3], 3, THREE_BROKERS, True),
            "Metadata record to znode": mirrored(),
        }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="./dev bench calls", description=__doc__)
    parser.add_argument("--told", metavar="NAME", help="print the functions of a row")
    given = parser.parse_args(arguments)
    print(f"{'':<42}{'answered':>10}{'calls':>8}{'functions':>11}{'files':>7}{'KiB':>8}")
    for name, (row, counts) in measure().items():
        print(
            f"{name:<42}{row.answered:>10}{row.calls:>8}{row.functions:>11}{row.files:>7}{row.kib:>8}"
        )
        if name == given.told:
            for function, times in counts.by_function.most_common():
                print(f"    {times:>4} {function}")


if __name__ == "__main__":
    main()

"""Clients that would displace others from a broker: each is a function for a separate process, with plain sockets.

Each has a lower priority than the node and the honest client, as if it ran on another machine. It sends `True` through
its pipe when it works, and continues until it is killed.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import time
from contextlib import suppress

from bench.sizes import sized
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.header import encode_request
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from trimaran.wire.transport.connection.limits import FRAME_BYTES_BEFORE_LOGIN_MAX

LOWER_PRIORITY = 10
SECONDS = 60.0
# Versions that name topics.
PRODUCE, FETCH, METADATA, API_VERSIONS = 9, 11, 12, 3
FILLED, BULK = "filled", "bulk"
SLOW_READERS, READ_BYTES, READ_PAUSE = 20, 4096, 0.1
FLOODING, FLOOD_AT_A_TIME = 8, 64
PRODUCING, BULK_BYTES = 2, 900_000
ASKING, ASKED_AT_A_TIME = 8, 4
IDLE, HALF_OPEN = sized(10_000, 100), sized(1_000, 100)
# The longest wait for the end of half-open connections.
LIFE_SECONDS_MAX = 14.0


def frame(request, version: int) -> bytes:
    """Returns a frame with its length."""
    data = bytes(encode_request(request, version, 7, "bench"))
    return len(data).to_bytes(4, "big") + data


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_response(sock: socket.socket) -> memoryview:
    """Returns the next response without its length. Raises ConnectionError."""
    data = _exactly(sock, int.from_bytes(_exactly(sock, 4), "big"))
    return memoryview(data)


def _exactly(sock: socket.socket, count: int) -> bytearray:
    data = bytearray(count)
    got = 0
    while got < count:
        read = sock.recv_into(memoryview(data)[got:])
        if not read:
            raise ConnectionError("closed by the node")
        got += read
    return data


def produce_frame(topic: str, value_bytes: int, acks: int = -1) -> bytes:
    """Returns a Produce request with one record for partition 0."""
    records = bytes(build_batch([NewRecord(None, bytes(value_bytes), now_ms())]))
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return frame(ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics), PRODUCE)


def fetch_frame(topic: str, offset: int, max_bytes: int) -> bytes:
    """Returns a Fetch request for partition 0 from the offset, which waits for data."""
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic=topic, partitions=[part])]
    request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, topics=topics)
    return frame(request, FETCH)


def raise_descriptors() -> None:
    """Raises the limit of descriptors to the maximum. Raises RuntimeError if that is too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < IDLE + 2 * HALF_OPEN:
        raise RuntimeError(f"ulimit -n is {hard}, and must be {IDLE + 2 * HALF_OPEN} at least")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def slow_reader(port: int, pipe) -> None:
    """Sends repeated requests for as much as possible, and reads 40 KB/s of the responses."""
    readers = _connections(port, SLOW_READERS)
    for reader in readers:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BYTES)
        reader.sendall(fetch_frame(FILLED, 0, 64 << 20) * 16)
    pipe.send(True)
    while True:
        for reader in readers:
            with suppress(OSError):
                reader.recv(READ_BYTES)
        time.sleep(READ_PAUSE)


def tiny_requests(port: int, pipe) -> None:
    """Sends ApiVersions requests endlessly, many in flight."""
    _ask_without_end(_connections(port, FLOODING), _hello(), FLOOD_AT_A_TIME, pipe)


def bulk_producer(port: int, pipe) -> None:
    """Sends batches of nearly a megabyte, one in flight on each connection."""
    _ask_without_end(_connections(port, PRODUCING), produce_frame(BULK, BULK_BYTES, 1), 1, pipe)


def metadata_storm(port: int, pipe) -> None:
    """Requests the metadata of all topics endlessly."""
    request = frame(MetadataRequest(topics=None), METADATA)
    _ask_without_end(_connections(port, ASKING), request, ASKED_AT_A_TIME, pipe)


def idle_connections(port: int, pipe) -> None:
    """Opens connections that have sent ApiVersions once."""
    raise_descriptors()
    held = _connections(port, IDLE)
    pipe.send(True)
    time.sleep(SECONDS)
    del held


def half_open(port: int, pipe) -> None:
    """Opens connections that send all except the last byte of the largest frame before a login; then reports the
    longest life of one.
    """
    raise_descriptors()
    more = FRAME_BYTES_BEFORE_LOGIN_MAX.to_bytes(4, "big") + bytes(FRAME_BYTES_BEFORE_LOGIN_MAX - 1)
    opened: dict[socket.socket, float] = {}
    for _ in range(HALF_OPEN):
        (one,) = _connections(port, 1)
        one.sendall(more)
        opened[one] = time.monotonic()
    pipe.send(True)
    longest = 0.0
    with selectors.DefaultSelector() as selector:
        for one in opened:
            selector.register(one, selectors.EVENT_READ)
        end = time.monotonic() + LIFE_SECONDS_MAX
        while opened and time.monotonic() < end:
            for key, _ in selector.select(0.1):
                selector.unregister(key.fileobj)
                longest = max(longest, time.monotonic() - opened.pop(key.fileobj))
    pipe.send(LIFE_SECONDS_MAX if opened else longest)
    time.sleep(SECONDS)


def _hello() -> bytes:
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    return frame(request, API_VERSIONS)


def _connections(port: int, count: int) -> list[socket.socket]:
    """Opens connections, each of which has received its first response."""
    os.setpriority(os.PRIO_PROCESS, 0, LOWER_PRIORITY)
    made = []
    for _ in range(count):
        one = connect(port)
        one.sendall(_hello())
        read_response(one)
        made.append(one)
    return made


def _ask_without_end(clients: list[socket.socket], request: bytes, at_a_time: int, pipe) -> None:
    """Sends the next requests as soon as the previous ones have responses."""
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
            client.sendall(request * at_a_time)
        pipe.send(True)
        while True:
            for key, _ in selector.select():
                for _ in range(at_a_time):
                    read_response(key.fileobj)
                key.fileobj.sendall(request * at_a_time)


CROWDS = {
    "a slow reader": slow_reader,
    "tiny requests": tiny_requests,
    "a bulk producer": bulk_producer,
    "a Metadata storm": metadata_storm,
    # Precedes the crowd whose memory the node keeps afterwards.
    f"{HALF_OPEN:,} half-open": half_open,
    f"{IDLE:,} idle": idle_connections,
}

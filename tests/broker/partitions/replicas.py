"""Brokers that replicate over real sockets and disks, with given metadata images."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

import trio

from tests.cluster.data_side import open_harness, registration, serving
from trimaran.broker.partitions.partition import Partition
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.wire.identity import TopicPartition

DEADLINE_SECONDS = 60


def batch(*values: bytes) -> memoryview:
    return memoryview(
        bytearray(build_batch([NewRecord(None, v, 1_700_000_000_000) for v in values]))
    )


def append(harness, *values: bytes, name: str = "t"):
    data = batch(*values)
    return harness.leader(name).append(data, list(iter_batches(data)))


class Brokers:
    """Harnesses by broker id, each with a listening socket; `assign` gives all of them the same image."""

    def __init__(self, harnesses, ports) -> None:
        self.harnesses = harnesses
        self.ports = ports

    def __getitem__(self, node_id):
        return self.harnesses[node_id]

    def assign(self, *topics) -> None:
        brokers = tuple(registration(node_id, port) for node_id, port in self.ports.items())
        for harness in self.harnesses.values():
            harness.set_image(*topics, brokers=brokers)

    def partition(self, node_id: int, name: str = "t") -> Partition:
        return self.harnesses[node_id].partitions.find(TopicPartition(name, 0))


@asynccontextmanager
async def brokers(tmp_path, *node_ids, **settings):
    async with AsyncExitStack() as stack:
        harnesses, ports = {}, {}
        for node_id in node_ids:
            harness = open_harness(tmp_path / str(node_id), node_id, replicates=True, **settings)
            ports[node_id] = await stack.enter_async_context(serving(harness))
            harnesses[node_id] = harness
        with trio.fail_after(DEADLINE_SECONDS):
            yield Brokers(harnesses, ports)


async def until(condition) -> None:
    """Runs all tasks until `condition` holds; the caller sets the deadline."""
    while not condition():
        await trio.lowlevel.checkpoint()

"""mD7: failing calls of a broker's disk, one kind at a time, with a real controller and broker in this process."""

import errno
from functools import partial

import pytest
import trio

import trimaran.broker.storage
import trimaran.broker.storage.broker_storage
from tests.badinput.nodes import Cluster, Node
from tests.badinput.peer import ask, codes
from tests.badinput.test_disk import TOPIC, produce_until_refused, read
from tests.badinput.test_records import batch, request
from tests.cluster.in_process import cluster
from tests.log.faulty_files import FaultyFiles
from trimaran.errors.node import explain
from trimaran.log.durability.health import StorageFailure

pytestmark = pytest.mark.slow

FAULTS = {
    "fsync-eio": ("fdatasync", errno.EIO, None),
    "write-eio": ("pwrite", errno.EIO, None),
    "write-enospc": ("pwrite", errno.ENOSPC, None),
    "half-a-write": ("pwrite", errno.ENOSPC, lambda size: size // 2),
}


def _node(running, node_id=11) -> Node:
    return Node("broker", node_id, running.addresses["PLAINTEXT"])


@pytest.mark.parametrize(("call", "error", "short"), FAULTS.values(), ids=FAULTS)
async def test_a_call_that_fails(tmp_path, monkeypatch, call, error, short):
    faulty = FaultyFiles()
    real = trimaran.broker.storage.broker_storage.LogDirectory
    monkeypatch.setattr(
        trimaran.broker.storage.broker_storage, "LogDirectory", partial(real, files=faulty)
    )
    with trio.fail_after(60):
        async with cluster(tmp_path, brokers=0) as own:
            running = await own.start_broker(11, expect_failure=True)
            node = _node(running)
            told = Cluster(Node("controller", 1, ("127.0.0.1", 0)), node, "")
            await trio.to_thread.run_sync(told.create, TOPIC)
            good = await trio.to_thread.run_sync(_some, node)
            faulty.short_write = short
            faulty.fail_at(call, 20, error, sticky=True)
            acknowledged, refusal = await trio.to_thread.run_sync(produce_until_refused, node)
            assert refusal <= {"KAFKA_STORAGE_ERROR", "NOT_LEADER_OR_FOLLOWER", "closed"}
            await own.ended[11].wait()
            explained = explain(own.failures[11])
            assert explained is not None, own.failures[11]
            assert isinstance(own.failures[11], BaseExceptionGroup | StorageFailure)

            monkeypatch.setattr(trimaran.broker.storage.broker_storage, "LogDirectory", real)
            again = _node(await own.start_broker(11))
            wanted = sorted([*good, *acknowledged])
            kept = await trio.to_thread.run_sync(read, again.address, len(wanted))
            assert kept[: len(wanted)] == wanted


def _some(node: Node) -> list[int]:
    offsets = []
    for _ in range(5):
        response = ask(node.address, request(batch(), topic=TOPIC), 9)
        assert codes(response) == {"NONE"}
        offsets.append(response.responses[0].partition_responses[0].base_offset)
    return offsets

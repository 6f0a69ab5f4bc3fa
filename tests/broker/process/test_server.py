"""A broker's life: crashes, full disks, one process with a controller, and what it leaves behind."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from tests.broker.test_end_to_end import DEADLINE_SECONDS, consume, in_thread, produce
from tests.cluster.in_process import Images, cluster
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.process.lifecycle import Lifecycle
from trimaran.broker.process.server import run_broker
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.log.disk.files import Files
from trimaran.log.durability.health import StorageFailure
from trimaran.log.durability.syncing import Fdatasyncs, of_this_run
from trimaran.quorum.formatting.storage import format_directories
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.transport.client.node_connection import open_node_connection

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for exception in error.exceptions for leaf in leaves(exception)]
    return [error]


def fail_in_calls(monkeypatch, directories, operation):
    """Makes that operation fail, as on a full disk, for every file of these directories."""
    real = getattr(Files, operation)

    def fail(self, file, *args):
        if file.path.parent in directories:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, file, *args)

    monkeypatch.setattr(Files, operation, fail)
    monkeypatch.setattr(Files, "kernel_syncs", False)


def fail_in_the_kernel(monkeypatch, directories):
    """Makes flushes fail, as on a full disk whose file system detects this in write-back."""
    submit, completed, failing = Fdatasyncs.submit, Fdatasyncs.completed, set()

    def watched(self, descriptors):
        tag, taken = submit(self, descriptors)
        paths = [Path(os.readlink(f"/proc/self/fd/{descriptor}")) for descriptor in descriptors]
        if any(path.parent in directories for path in paths):
            failing.add(tag)
        return tag, taken

    def failed(self):
        return [(tag, errno.ENOSPC if tag in failing else error) for tag, error in completed(self)]

    if of_this_run() is None:
        pytest.skip("this machine has no asynchronous fdatasync")
    monkeypatch.setattr(Fdatasyncs, "submit", watched)
    monkeypatch.setattr(Fdatasyncs, "completed", failed)


@pytest.mark.parametrize("operation", ["fdatasync", "fdatasync of the kernel", "pwrite"])
async def test_disk_error_ends_broker_but_keeps_acknowledged(tmp_path, monkeypatch, operation):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        await running.start_broker(11, expect_failure=True)
        written = await in_thread(produce, running.bootstrap, "t")
        sealed = {
            broker_log.directory
            for broker_log in running.brokers[11].parts.storage.directories.metadata._logs.values()
            if broker_log.topic_partition[0] == "t"
        }

        if operation == "fdatasync of the kernel":
            fail_in_the_kernel(monkeypatch, sealed)
        else:
            fail_in_calls(monkeypatch, sealed, operation)
        bootstrap = running.bootstrap

        def lost():
            from tests.librdkafka import Producer

            producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 1000})
            producer.produce("t", b"lost", partition=0)
            producer.flush(5)

        await in_thread(lost)
        with trio.fail_after(DEADLINE_SECONDS):
            await running.ended[11].wait()
        assert any(isinstance(leaf, StorageFailure) for leaf in leaves(running.failures[11]))
        monkeypatch.undo()
        again = await running.start_broker(11)
        directory = again.parts.storage.directories.metadata
        assert not directory.clean_shutdown, "no marker after a failure"
        # Unacknowledged writes may survive: their outcome is unknown.
        survivors = len(written) + (operation != "pwrite")
        found = await in_thread(consume, running.bootstrap, "t", survivors)
        assert {value: found[value] for value in written} == written


async def test_clean_stop_writes_checkpoints_and_marker(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        await in_thread(produce, running.bootstrap, "t")
        epoch = running.brokers[11].parts.lifecycle.epoch
        await running.stop(11)
        path = tmp_path / "11"
        assert f'"brokerEpoch":{epoch}' in (path / ".kafka_cleanshutdown").read_text()
        for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
            lines = (path / name).read_text().rstrip().splitlines()[2:]
            assert {line for line in lines if line.startswith("t ")} == {
                f"t {index} 100" for index in range(3)
            }


async def test_broker_and_controller_share_one_process(tmp_path):
    """`process.roles=broker,controller`: one node, one directory, one replica of the metadata log; the node starts
    although no record is written.
    """
    settings = {"num_partitions": "3", "metadata_max_idle_interval_ms": "0"}
    async with cluster(tmp_path, brokers=0, **settings) as running:
        controller = running.controllers[1]
        await Images(controller).wait_for(lambda image: image.cluster.controllers)
        config = running.config(
            1,
            **{
                "process.roles": "broker,controller",
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1",
            },
        )
        async with trio.open_nursery() as nursery:

            async def start(*, task_status):
                await run_broker(config, controller=controller, task_status=task_status)

            with trio.fail_after(DEADLINE_SECONDS):
                broker = await nursery.start(start)
            bootstrap = f"127.0.0.1:{broker.addresses['PLAINTEXT'][1]}"
            written = await in_thread(produce, bootstrap, "t")
            assert await in_thread(consume, bootstrap, "t") == written
            nursery.cancel_scope.cancel()
        assert controller.node.is_leader, "the controller goes on"


async def test_directory_of_another_node_is_refused(tmp_path):
    async with cluster(tmp_path, brokers=0) as running:
        config = running.config(
            12, **{"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0"}
        )
        format_directories(config, CLUSTER_ID)
        other = running.config(
            13,
            **{
                "process.roles": "broker",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(tmp_path / "12"),
            },
        )
        with pytest.raises(MetaPropertiesError):
            await run_broker(other)


async def test_broker_waits_for_late_controllers(tmp_path):
    async with cluster(tmp_path, controllers=3, brokers=1) as running:
        await running.stop(11)
        del running.brokers[11]
        for node_id in (1, 2, 3):
            await running.stop(node_id)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(running.start_broker, 11)
            await trio.testing.wait_all_tasks_blocked()
            assert 11 not in running.brokers
            with trio.fail_after(DEADLINE_SECONDS):
                await running.restart_controllers()
        assert running.brokers[11].parts.metadata.image.cluster.brokers[11].fenced is False


async def test_started_broker_serves_its_versions(tmp_path):
    async with cluster(tmp_path) as running:
        host, port = running.brokers[11].addresses["PLAINTEXT"]
        async with open_node_connection(host, port) as connection:
            served = connection.negotiated.versions
            answer = await connection.call(MetadataRequest(topics=None), timeout=5)
        assert {key: (versions.low, versions.high) for key, versions in served.items()}[1] == (
            0,
            18,
        )
        assert [broker.node_id for broker in answer.brokers] == [11]
        features = running.brokers[11].parts.metadata.image.features
        assert features.metadata_version == 33


@pytest.mark.parametrize("enabled", [True, False])
async def test_broker_leaves_by_controlled_shutdown_unless_disabled(tmp_path, monkeypatch, enabled):
    """The setting is `controlled.shutdown.enable`."""
    asked, shut_down = [], Lifecycle.shut_down

    async def noted(lifecycle, seconds):
        asked.append(seconds)
        return await shut_down(lifecycle, seconds)

    monkeypatch.setattr(Lifecycle, "shut_down", noted)
    async with cluster(tmp_path, brokers=0) as running:
        await running.start_broker(11, controlled_shutdown_enable=str(enabled).lower())
        await running.stop(11)
        assert len(asked) == enabled
        image = await Images(running.controllers[1]).wait_for(
            lambda image: image.cluster.brokers[11].fenced
        )
        assert 11 in image.cluster.brokers

"""A broker with missing log directories: what it serves, what it refuses, and what happens when they return."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence

import pytest

from tests.broker.test_end_to_end import in_thread
from tests.broker.test_failing_moves import read, write
from tests.broker.test_log_directories import ask
from tests.cluster.in_process import Cluster, cluster
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX
from trimaran.quorum.metadata.image import LOST_DIRECTORY
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RECORDS = 20
ONE = {"num_partitions": "1", "default_replication_factor": "1"}


def settings(path, names: str = "ab") -> dict[str, str]:
    """The metadata log has its own directory, so that the broker continues whichever other one fails."""
    return {
        "log_dirs": ",".join(str(path / name) for name in names),
        "metadata_log_dir": str(path / "metadata"),
    }


def state(running: Cluster, name: str = "t"):
    return running.brokers[11].parts.metadata.image.topics.by_name[name].partitions[0]


def holding(running: Cluster):
    return running.brokers[11].parts.storage.directories.holding(TopicPartition("t", 0))


async def placed(running: Cluster) -> None:
    directory = holding(running).directory_id
    await running.seen(lambda image: state(running).directory_of(11) == directory)


def make_unreadable(directory, *, back: bool = False) -> None:
    lock = directory / ".lock"
    if back:
        lock.rmdir()
    else:
        lock.unlink(missing_ok=True)
        lock.mkdir()


async def create(running: Cluster, *, replicas: Sequence[int] = (11,)) -> ErrorCode:
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))
    topic = CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=[assignment], configs=[]
    )
    answer = await ask(running, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    return ErrorCode.of(answer.topics[0].error_code)


async def delete(running: Cluster) -> None:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t", topic_id=NIL_UUID)], timeout_ms=10_000
    )
    answer = await ask(running, request)
    assert answer.responses[0].error_code == 0
    await running.seen(lambda image: "t" not in image.topics.by_name)


@pytest.mark.parametrize("opened", [True, False], ids=["in use", "at rest"])
async def test_topic_is_recreated_while_namesakes_directory_offline(tmp_path, caplog, opened):
    """A6: it is immediately served from an online directory; when the failed one returns, topic ids decide."""
    async with cluster(tmp_path, brokers=0, **ONE) as running:
        await running.start_broker(11, **settings(tmp_path))
        await in_thread(write, running.bootstrap, 0, RECORDS)
        await placed(running)
        if not opened:
            await running.stop(11)
            await running.start_broker(11, **settings(tmp_path))
        failed = holding(running)
        failed.health.fail("the cable was pulled")
        await running.seen(lambda image: state(running).leader == -1)
        await delete(running)
        caplog.clear()
        assert await create(running) is ErrorCode.NONE
        await running.seen(lambda image: "t" in image.topics.by_name)
        assert holding(running) is not failed
        await in_thread(write, running.bootstrap, 100, RECORDS)
        assert holding(running).offline is None
        assert await in_thread(read, running.bootstrap, RECORDS) == list(range(100, 120))
        assert "t-0" not in caplog.text
        await placed(running)
        await running.stop(11)
        await running.start_broker(11, **settings(tmp_path))
        assert await in_thread(read, running.bootstrap, RECORDS) == list(range(100, 120))
        assert failed.path != holding(running).path


@pytest.mark.parametrize("third", ["read", "away"])
async def test_crash_during_swap_with_another_directory_offline(tmp_path, third):
    """A2: the state of an older release that crashed between the two renames."""
    async with cluster(tmp_path, brokers=0, **ONE) as running:
        await running.start_broker(11, **settings(tmp_path, "abc"))
        await in_thread(write, running.bootstrap, 0, RECORDS)
        await placed(running)
        source = holding(running).path
        target, other = (tmp_path / name for name in "abc" if name != source.name)
        await running.stop(11)
        shutil.copytree(source / "t-0", target / f"t-0.{uuid.uuid4().hex}{FUTURE_SUFFIX}")
        (source / "t-0").rename(source / f"t-0.{uuid.uuid4().hex}{DELETE_SUFFIX}")
        for item in (source, target, other):
            (item / ".kafka_cleanshutdown").unlink()
        if third == "away":
            make_unreadable(other)
        await running.start_broker(11, **settings(tmp_path, "abc"))
        assert await in_thread(read, running.bootstrap, RECORDS) == list(range(RECORDS))
        assert holding(running).path == target
        await placed(running)


async def test_only_replica_waits_for_its_directory(tmp_path, caplog):
    """The controller's knowledge is outdated: the crash came before the report of the move."""
    async with cluster(tmp_path, brokers=0, **ONE) as running:
        await running.start_broker(11, **settings(tmp_path))
        await in_thread(write, running.bootstrap, 0, RECORDS)
        await placed(running)
        source = holding(running).path
        target = tmp_path / ("b" if source.name == "a" else "a")
        await running.stop(11)
        (source / "t-0").rename(target / "t-0")
        for item in (source, target):
            (item / ".kafka_cleanshutdown").unlink()
        make_unreadable(target)
        broker = await running.start_broker(11, **settings(tmp_path))
        held = broker.parts.families.data.partitions.find(TopicPartition("t", 0))
        if held.leads:
            await in_thread(lambda: None)
            assert not held.is_new
        assert holding(running) is None
        with pytest.raises(Exception, match="KAFKA_STORAGE_ERROR"):
            _ = held.log
        assert f"{target}, which could not be read" in caplog.text
        assert state(running).directory_of(11) != LOST_DIRECTORY, "no other could lead"
        assert not (source / "t-0").exists()
        await running.stop(11)
        make_unreadable(target, back=True)
        await running.start_broker(11, **settings(tmp_path))
        await running.seen(lambda image: state(running).leader == 11)
        assert await in_thread(read, running.bootstrap, RECORDS) == list(range(RECORDS))


async def test_last_in_sync_replica_continues_without_log(tmp_path):
    """Nothing was written yet, and another replica is out of sync: no manual election is needed."""
    async with cluster(tmp_path, brokers=0) as running:
        await running.start_broker(11, **settings(tmp_path))
        await running.start_broker(12)
        await running.stop(12)
        del running.brokers[12]
        assert await create(running, replicas=[11, 12]) is ErrorCode.NONE
        await running.seen(lambda image: "t" in image.topics.by_name)
        assert state(running).isr == (11,)
        await running.stop(11)
        make_unreadable(tmp_path / "b")
        broker = await running.start_broker(11, **settings(tmp_path))
        with pytest.raises(KafkaError, match="b, which could not be read"):
            _ = broker.parts.families.data.partitions.find(TopicPartition("t", 0)).log
        await running.stop(11)
        make_unreadable(tmp_path / "b", back=True)
        await running.start_broker(11, **settings(tmp_path))
        await in_thread(write, running.bootstrap, 0, RECORDS)
        assert await in_thread(read, running.bootstrap, RECORDS) == list(range(RECORDS))

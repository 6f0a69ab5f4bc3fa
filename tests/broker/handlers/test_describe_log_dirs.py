"""DescribeLogDirs: directories with the sizes of their volumes and of their replicas."""

import pytest

from tests.broker.background.test_directory_moves import Moves, other_directory
from tests.broker.batches import batch
from tests.broker.calls import answered, call, carried_out, through_wire
from tests.broker.rooms import NotedRoom
from tests.cluster.data_side import open_harness, partition, topic
from tests.cluster.in_process import cluster, connected_to
from trimaran.broker.handlers.describe_log_dirs import describe_log_dirs
from trimaran.log.batches.batch import iter_batches
from trimaran.log.directories.directory import LogDirectory
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from trimaran.wire.transport.memory.room import OBJECT_BYTES


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition(), partition()), topic("u", partition()))
    yield harness
    harness.directory.close(broker_epoch=None)


async def described(harness, *topics, version=4):
    wanted = [DescribableLogDirTopic(topic=name, partitions=list(ids)) for name, ids in topics]
    request = through_wire(DescribeLogDirsRequest(topics=wanted or None), version)
    answer = await answered(
        describe_log_dirs, request, harness.contexts.directories, call(request, version)
    )
    return through_wire(answer, version)


def sizes(result):
    return {
        (found.name, partition.partition_index): partition.partition_size
        for found in result.topics
        for partition in found.partitions
    }


@pytest.mark.parametrize("version", [1, 3, 4, 5])
async def test_every_replica_has_its_size(harness, version, tmp_path):
    data = batch(b"value")
    harness.leader("t", 1).append(data, list(iter_batches(data)))
    (result,) = (await described(harness, version=version)).results
    assert (result.error_code, result.log_dir) == (0, str(tmp_path))
    assert sizes(result) == {("t", 0): 0, ("t", 1): len(data), ("u", 0): 0}
    if version >= 4:
        assert 0 < result.usable_bytes <= result.total_bytes


async def test_unopened_log_is_measured_by_its_files(harness, tmp_path):
    data = batch(b"value")
    harness.leader("t", 1).append(data, list(iter_batches(data)))
    harness.directory.close(broker_epoch=None)
    again = open_harness(tmp_path)
    again.set_image(topic("t", partition(), partition()))
    (result,) = (await described(again)).results
    assert again.partitions.find(TopicPartition("t", 1)).open_log is None
    assert sizes(result)[("t", 1)] == len(data)
    again.directory.close(broker_epoch=None)


async def test_only_requested_partitions_are_described(harness):
    (result,) = (await described(harness, ("t", [1, 9]), ("nowhere", [0]))).results
    assert set(sizes(result)) == {("t", 1)}


async def test_failed_directory_is_listed_with_error(tmp_path):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    async with cluster(tmp_path, brokers=0) as running:
        broker = await running.start_broker(11, log_dirs=",".join(paths))
        async with connected_to(broker) as connection:
            failed = broker.parts.storage.directories.at(paths[1])
            failed.health.fail("the disk is gone")
            answer = await connection.call(DescribeLogDirsRequest(topics=None), timeout=5)
            failed.health.offline = None
    assert {result.log_dir: result.error_code for result in answer.results} == {
        paths[0]: 0,
        paths[1]: ErrorCode.KAFKA_STORAGE_ERROR,
    }


async def test_all_failed_directories_are_described(harness, tmp_path):
    """The request arrives just before the broker stops because all its directories have failed."""
    harness.directory.health.fail("the disk is gone")
    (result,) = (await described(harness)).results
    assert (result.error_code, result.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, str(tmp_path))


@pytest.mark.parametrize("what", ["volume", "segment_files"])
async def test_unreadable_directory_is_described_as_failed(harness, monkeypatch, tmp_path, what):
    """The disk has failed, and the broker has not noticed yet."""

    def fail(*_):
        raise OSError("input/output error")

    monkeypatch.setattr(LogDirectory, what, fail)
    (result,) = (await described(harness)).results
    assert (result.error_code, result.log_dir) == (ErrorCode.KAFKA_STORAGE_ERROR, str(tmp_path))
    assert result.topics == []


async def test_replica_of_failed_directory_is_listed_nowhere(tmp_path):
    """`open_harness` assigns all replicas to its directory, which is the one that fails."""
    harness = open_harness(tmp_path / "a")
    harness.directories.all.append(other_directory(tmp_path / "b"))
    harness.set_image(topic("t", partition()))
    harness.directory.health.fail("the disk is gone")
    told = {result.log_dir: result for result in (await described(harness)).results}
    assert told[str(tmp_path / "b")].topics == []


async def test_copy_is_listed_while_target_is_online(tmp_path):
    """The size and lag of the copy are listed; a copy in a failed directory is not listed."""
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    source = setup.harness.partitions.find(TopicPartition("t", 0)).log
    told = {result.log_dir: result for result in (await described(setup.harness)).results}
    (of_a,), (of_b,) = (
        told[str(directory.path)].topics[0].partitions for directory in (setup.a, setup.b)
    )
    assert (of_a.partition_size, of_a.offset_lag, of_a.is_future_key) == (
        source.size_bytes,
        0,
        False,
    )
    assert (of_b.partition_size, of_b.offset_lag, of_b.is_future_key) == (0, 3, True)
    setup.b.health.fail("the disk is gone")
    told = {result.log_dir: result for result in (await described(setup.harness)).results}
    assert told[str(setup.b.path)].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(told[str(setup.a.path)].topics) == 1


@pytest.mark.parametrize(("copied", "lag"), [(0, 3), (2, 1), (3, 0), (4, 0)])
async def test_copy_lags_by_missing_records(tmp_path, copied, lag):
    """A copy may be longer for a moment: its source was truncated."""
    setup = Moves(tmp_path)
    setup.request(0, setup.b)
    replica = setup.harness.partitions.find(TopicPartition("t", 0))
    copy = setup.moves.of(replica).copy
    if copied:
        copy.skip_to(copied, 0)
    told = {result.log_dir: result for result in (await described(setup.harness)).results}
    [of_copy] = told[str(setup.b.path)].topics[0].partitions
    assert (of_copy.offset_lag, of_copy.partition_size) == (lag, copy.size_bytes)


async def test_memory_and_steps_depend_on_requested_partitions(harness):
    async def used(count):
        topics = [DescribableLogDirTopic(topic="none", partitions=list(range(count)))]
        message = DescribeLogDirsRequest(topics=topics if count else None)
        asked = call(message, 4)
        room, effects = NotedRoom(asked), []
        await carried_out(describe_log_dirs(message, harness.contexts.directories, asked), effects)
        return room.noted[0], effects.count(None)

    (asked, few), (_, more) = [await used(count) for count in (998, 1998)]
    assert asked == ("expect", 998 * OBJECT_BYTES)
    assert more - few == 1000
    assert (await used(0))[0] == ("expect", 3 * OBJECT_BYTES)

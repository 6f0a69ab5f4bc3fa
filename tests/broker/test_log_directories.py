"""Several log directories on real brokers: placement, failure of one or all, one unreadable at the start, and leftovers
of moves after a crash.
"""

from __future__ import annotations

import shutil
import uuid

import pytest
import trio

from tests.broker.test_end_to_end import VALUES, consume, in_thread, produce
from tests.cluster.in_process import Cluster, cluster, connected_to
from trimaran.broker.storage.directories import LogDirectories
from trimaran.log.batches.batch import HEADER_BYTES
from trimaran.log.directories.directory import LogDirectory
from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.log.durability.health import StorageFailure
from trimaran.log.partitions.names import FUTURE_SUFFIX
from trimaran.node.config.loggers import ConfigOperation
from trimaran.node.runtime.clock import now_ms
from trimaran.quorum.metadata.image import LOST_DIRECTORY
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from trimaran.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from trimaran.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

DEADLINE_SECONDS = 20
PARTITIONS = 3


def two(path, node_id: int = 11) -> dict[str, str]:
    return {"log_dirs": f"{path / f'{node_id}-a'},{path / f'{node_id}-b'}"}


async def ask(running: Cluster, request, node_id: int = 11):
    async with connected_to(running.brokers[node_id]) as connection:
        return await connection.call(request, timeout=10)


def states(running: Cluster, topic: str = "t", node_id: int = 11):
    return running.brokers[node_id].parts.metadata.image.topics.by_name[topic].partitions


def where(running: Cluster, node_id: int = 11) -> dict[int, str]:
    directories = running.brokers[node_id].parts.storage.directories
    return {
        index: directories.holding(TopicPartition("t", index)).path.name[-1]
        for index in range(PARTITIONS)
        if directories.holding(TopicPartition("t", index))
    }


async def described(running: Cluster, node_id: int = 11):
    answer = await ask(running, DescribeLogDirsRequest(topics=None), node_id)
    return {
        result.log_dir[-1]: (
            ErrorCode.of(result.error_code),
            sorted(
                (partition.partition_index, partition.is_future_key)
                for topic in result.topics
                if topic.name == "t"
                for partition in topic.partitions
            ),
        )
        for result in answer.results
    }


async def test_replicas_are_spread_and_the_controller_knows_where(tmp_path):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        broker = await running.start_broker(11, **two(tmp_path))
        written = await in_thread(produce, running.bootstrap, "t")
        ids = {
            directory.path.name[-1]: directory.directory_id
            for directory in broker.parts.storage.directories.all
        }
        placed = where(running)
        assert sorted(placed.values()) in (["a", "a", "b"], ["a", "b", "b"])
        await running.seen(
            lambda image: all(
                partition.directory_of(11) == ids[placed[index]]
                for index, partition in image.topics.by_name["t"].partitions.items()
            ),
        )
        registered = broker.parts.metadata.image.cluster.brokers[11]
        assert set(registered.directories) == set(ids.values())
        found = await described(running)
        assert {key: code for key, (code, _) in found.items()} == dict.fromkeys(
            "ab", ErrorCode.NONE
        )
        assert sorted(index for _, listed in found.values() for index, _ in listed) == [0, 1, 2]
        await running.stop(11)
        assert all((tmp_path / f"11-{letter}" / ".kafka_cleanshutdown").exists() for letter in "ab")
        await running.start_broker(11, **two(tmp_path))
        assert where(running) == placed
        assert await in_thread(consume, running.bootstrap, "t") == written


async def cordon(running: Cluster, value: str, operation: ConfigOperation = ConfigOperation.SET):
    config = AlterableConfig(name="cordoned.log.dirs", config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=4, resource_name="11", configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    [answer] = (await ask(running, request)).responses
    return ErrorCode.of(answer.error_code), answer.error_message


async def create(running: Cluster, name: str):
    topic = CreatableTopic(
        name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[]
    )
    answer = await ask(running, CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    return ErrorCode.of(answer.topics[0].error_code)


async def test_cordoned_directory_receives_no_new_replicas(tmp_path):
    """KIP-1066: cordoned by the properties file, then by a dynamic config; existing replicas stay."""
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        a, b = (str(tmp_path / f"11-{letter}") for letter in "ab")
        broker = await running.start_broker(11, **two(tmp_path), cordoned_log_dirs=a)
        written = await in_thread(produce, running.bootstrap, "t")
        assert set(where(running).values()) == {"b"}
        assert (
            broker.parts.families.data.moves.request(TopicPartition("t", 0), a)
            is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        )
        answer = await ask(running, DescribeLogDirsRequest(topics=None))
        assert {result.log_dir: result.is_cordoned for result in answer.results} == {
            a: True,
            b: False,
        }
        code, message = await cordon(running, f"{a},/elsewhere")
        assert (code, "Missing entries : /elsewhere" in message) == (
            ErrorCode.INVALID_REQUEST,
            True,
        )
        ids = {
            str(directory.path): directory.directory_id
            for directory in broker.parts.storage.directories.all
        }
        for value, directories in ((b, {ids[b]}), ("*", {ids[a], ids[b]})):
            assert await cordon(running, value) == (ErrorCode.NONE, None)
            await running.seen(
                lambda image, told=directories: (
                    set(image.cluster.brokers[11].cordoned_directories or ()) == told
                ),
            )
            code, _ = await cordon(running, "*", ConfigOperation.APPEND)
            assert code is (ErrorCode.NONE if value == "*" else ErrorCode.INVALID_REQUEST)
        assert await create(running, "u") is ErrorCode.INVALID_REPLICATION_FACTOR
        assert await cordon(running, "") == (ErrorCode.NONE, None)
        await running.seen(lambda image: image.cluster.brokers[11].cordoned_directories == ())
        assert await create(running, "u") is ErrorCode.NONE
        assert await in_thread(consume, running.bootstrap, "t") == written


async def test_one_directory_fails_and_the_others_go_on(tmp_path):
    async with cluster(
        tmp_path, brokers=0, num_partitions="3", default_replication_factor="2"
    ) as running:
        for node_id in (11, 12):
            await running.start_broker(node_id, **two(tmp_path, node_id))
        written = await in_thread(produce, running.bootstrap, "t")
        directories = running.brokers[11].parts.storage.directories
        data = next(
            directory for directory in directories.all if directory is not directories.metadata
        )
        lost = [index for topic, index in data.partitions() if topic == "t"]
        assert lost
        data.health.fail("the cable was pulled")
        await running.seen(
            lambda image: all(
                image.topics.by_name["t"].partitions[index].leader == 12
                and image.topics.by_name["t"].partitions[index].isr == (12,)
                for index in lost
            ),
            12,
        )
        assert (await described(running))["b"] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        assert await in_thread(consume, running.bootstrap, "t") == written
        await in_thread(produce, running.bootstrap, "t")
        registered = running.brokers[12].parts.metadata.image.cluster.brokers[11]
        assert data.directory_id not in registered.directories
        assert not registered.fenced
        await running.stop(11)
        await running.start_broker(11, **two(tmp_path))
        await running.seen(
            lambda image: all(len(state.isr) == 2 for state in states(running).values())
        )


async def test_unplaced_replica_in_failing_directory_returns(tmp_path, monkeypatch):
    """The replica is not lost: it leads again when the directory returns, even if a crash has removed its log, which
    had no records.
    """
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        broker = await running.start_broker(11, **two(tmp_path))
        broker.parts.storage.directories.on_placed = lambda *_: None
        await in_thread(produce, running.bootstrap, "t")
        directories = broker.parts.storage.directories
        data = next(
            directory for directory in directories.all if directory is not directories.metadata
        )
        lost = {index for topic, index in data.partitions() if topic == "t"}
        lifecycle, reported = broker.parts.lifecycle, []
        report = lifecycle.report
        monkeypatch.setattr(lifecycle, "report", lambda: reported.append(report()))
        data.health.fail("the cable was pulled")
        await running.seen(
            lambda image: (
                {
                    index
                    for index, partition in image.topics.by_name["t"].partitions.items()
                    if partition.directory_of(11) == data.directory_id and partition.leader == -1
                }
                == lost
            ),
        )
        assert len(reported) == 1, "the next heartbeat would be seconds later"
        with pytest.raises(KafkaError) as refused:
            _ = broker.parts.families.data.partitions.find(TopicPartition("t", lost.pop())).log
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_damaged_replica_moved_away_is_fetched_anew(tmp_path, caplog):
    """The test follows the instruction to the operator in the log line."""
    settings = {"num_partitions": "3", "default_replication_factor": "2"}
    async with cluster(tmp_path, brokers=0, **settings) as running:
        for node_id in (11, 12):
            await running.start_broker(node_id)
        written = await in_thread(produce, running.bootstrap, "t")
        await running.stop(11)
        replica = tmp_path / "11" / "t-0"
        (segment,) = replica.glob("*.log")
        intact = segment.read_bytes()
        segment.write_bytes(intact[:-1])
        broker = await running.start_broker(11)
        await running.seen(
            lambda image: (
                states(running)[0].isr == (12,)
                and states(running)[0].directory_of(11) == LOST_DIRECTORY
            ),
        )
        assert f"move {replica} away" in caplog.text
        assert await in_thread(consume, running.bootstrap, "t") == written
        await running.stop(11)
        replica.rename(tmp_path / "aside")
        broker = await running.start_broker(11)
        await running.seen(lambda image: len(states(running)[0].isr) == 2)
        (directory,) = broker.parts.storage.directories.all
        assert states(running)[0].directory_of(11) == directory.directory_id
        assert segment.read_bytes() == intact


async def test_replica_with_damaged_id_is_kept_unled(tmp_path, caplog):
    settings = {"num_partitions": "3", "default_replication_factor": "2"}
    async with cluster(tmp_path, brokers=0, **settings) as running:
        for node_id in (11, 12):
            await running.start_broker(node_id)
        written = await in_thread(produce, running.bootstrap, "t")
        await running.stop(11)
        replica = tmp_path / "11" / "t-0"
        metadata = replica / "partition.metadata"
        intact = metadata.read_bytes()
        metadata.write_bytes(intact[:20] + bytes([intact[20] ^ 1]) + intact[21:])
        [segment] = replica.glob("*.log")
        records = segment.read_bytes()
        await running.start_broker(11)
        await running.seen(
            lambda image: (
                [states(running)[index].isr for index in (0, 1, 2)].count((12,)) == 1
                and states(running)[0].directory_of(11) == LOST_DIRECTORY
            ),
        )
        assert f"{metadata} is damaged" in caplog.text
        assert await in_thread(consume, running.bootstrap, "t") == written
        await in_thread(produce, running.bootstrap, "t")
        assert segment.read_bytes() == records
        await running.stop(11)
        metadata.write_bytes(intact)
        await running.start_broker(11)
        await running.seen(lambda image: len(states(running)[0].isr) == 2)


async def test_linked_partition_is_deleted_with_its_topic(tmp_path):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        await running.start_broker(11)
        written = await in_thread(produce, running.bootstrap, "t")
        await running.stop(11)
        link, moved = tmp_path / "11" / "t-0", tmp_path / "elsewhere"
        link.rename(moved)
        link.symlink_to(moved, target_is_directory=True)
        broker = await running.start_broker(11)
        assert await in_thread(consume, running.bootstrap, "t") == written
        topic = DeleteTopicState(name="t", topic_id=NIL_UUID)
        await ask(running, DeleteTopicsRequest(topics=[topic], timeout_ms=10_000))
        await running.seen(lambda image: "t" not in image.topics.by_name)
        await broker.parts.storage.directories.purge()
        assert broker.parts.storage.directories.offline is None
        assert not [path for path in link.parent.iterdir() if path.name.startswith("t-")]
        assert list(moved.glob("*.log"))
        await running.stop(11)
        await running.start_broker(11)
        assert await in_thread(produce, running.bootstrap, "u")


async def test_leader_with_damage_found_by_follower_resigns(tmp_path, caplog):
    """P17: no record is lost while another in-sync replica is intact, and the follower replicates all of them."""
    settings = {"num_partitions": "3", "default_replication_factor": "3"}
    async with cluster(tmp_path, brokers=3, **settings) as running:
        written = await in_thread(produce, running.bootstrap, "t")
        await running.stop(13)
        await running.seen(lambda image: len(states(running)[0].isr) == 2)
        shutil.rmtree(tmp_path / "13" / "t-0")
        leader = states(running)[0].leader
        [other] = {11, 12} - {leader}
        (segment,) = (tmp_path / str(leader) / "t-0").glob("*.log")
        damaged = bytearray(segment.read_bytes())
        damaged[HEADER_BYTES + 3] ^= 1
        segment.write_bytes(damaged)
        await running.start_broker(13)
        await running.seen(lambda image: set(states(running)[0].isr) == {other, 13})
        assert states(running)[0].directory_of(leader) == LOST_DIRECTORY
        assert f"t-0 is not replicated from broker {leader}" in caplog.text
        assert "out of service" in caplog.text
        assert (segment.parent / "damaged").exists()
        assert await in_thread(consume, running.bootstrap, "t") == written


async def placed_in_both(running: Cluster, path) -> tuple[object, set[int]]:
    """Returns the written records, and the partitions in directory b, all with one replica; the controller knows their
    directories. The broker is stopped.
    """
    broker = await running.start_broker(11, **two(path))
    written = await in_thread(produce, running.bootstrap, "t")
    ids = {directory.directory_id for directory in broker.parts.storage.directories.all}
    await running.seen(
        lambda image: all(state.directory_of(11) in ids for state in states(running).values())
    )
    in_b = {index for index, directory in where(running).items() if directory == "b"}
    assert in_b
    await running.stop(11)
    return written, in_b


async def all_lead(running: Cluster) -> None:
    await running.seen(lambda image: all(state.leader == 11 for state in states(running).values()))


async def test_replaced_disk_restarts_its_only_replicas(tmp_path):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        _, in_b = await placed_in_both(running, tmp_path)
        shutil.rmtree(tmp_path / "11-b")
        await running.start_broker(11, **two(tmp_path))
        await all_lead(running)
        await in_thread(produce, running.bootstrap, "t")
        ends = {
            i: running.brokers[11].parts.families.data.partitions.leader_of(TopicPartition("t", i))
            for i in in_b
        }
        assert all(leader.start_offset == 0 for leader in ends.values())


async def test_replicas_moved_during_downtime_lead_again(tmp_path):
    """Directory b is removed; its replicas are now in a."""
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        written, in_b = await placed_in_both(running, tmp_path)
        for index in in_b:
            (tmp_path / "11-b" / f"t-{index}").rename(tmp_path / "11-a" / f"t-{index}")
        await running.start_broker(11, log_dirs=str(tmp_path / "11-a"))
        await all_lead(running)
        assert await in_thread(consume, running.bootstrap, "t") == written


@pytest.mark.parametrize("which", ["all", "metadata", "metadata without partitions"])
async def test_broker_ends_without_usable_or_metadata_directory(tmp_path, which):
    settings = two(tmp_path)
    if which == "metadata without partitions":
        settings["metadata_log_dir"] = str(tmp_path / "11-metadata")
    async with cluster(tmp_path, brokers=0) as running:
        broker = await running.start_broker(11, expect_failure=True, **settings)
        directories = broker.parts.storage.directories
        for directory in directories.all if which == "all" else [directories.metadata]:
            directory.health.fail("gone")
        with trio.fail_after(DEADLINE_SECONDS):
            await running.ended[11].wait()
        failure = running.failures[11]
        while isinstance(failure, ExceptionGroup):
            failure = failure.exceptions[0]
        assert isinstance(failure, StorageFailure)
        del running.brokers[11]


@pytest.mark.parametrize(
    ("epochs", "failed", "previous"),
    [
        ((7, 7), (), 7),
        ((7, 6), (), -1),  # one directory was offline when the broker last stopped
        ((7, None), (), -1),
        ((7, 7), ("c",), -1),
    ],
)
def test_clean_epoch_needs_agreement_of_all_directories(tmp_path, epochs, failed, previous):
    """KIP-966: the controller keeps trusting a broker that reports it; see Kafka's
    `readBrokerEpochFromCleanShutdownFiles`.
    """
    opened = []
    for name, epoch in zip("ab", epochs, strict=True):
        path = tmp_path / name
        path.mkdir()
        MetaProperties("c", 11, name.encode() * 16).save(path)
        LogDirectory(path, now_ms=now_ms).close(broker_epoch=epoch)
        opened.append(LogDirectory(path, now_ms=now_ms))
    directories = LogDirectories(
        opened, failed_at_start={tmp_path / name: "gone" for name in failed}
    )
    assert directories.previous_broker_epoch == previous
    directories.close(broker_epoch=None, high_watermarks={})


async def test_unreadable_directory_at_start_is_skipped(tmp_path):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        await running.start_broker(11, **two(tmp_path))
        await in_thread(produce, running.bootstrap, "t")
        placed = where(running)
        await running.seen(
            lambda image: all(any(s.directories[0]) for s in states(running).values())
        )
        await running.stop(11)
        (tmp_path / "11-b" / ".lock").unlink()
        (tmp_path / "11-b" / ".lock").mkdir()
        broker = await running.start_broker(11, **two(tmp_path))
        assert list(broker.parts.storage.directories.failed_at_start) == [tmp_path / "11-b"]
        gone = {index for index, directory in placed.items() if directory == "b"}
        await running.seen(
            lambda image: (
                {
                    index: partition.leader
                    for index, partition in image.topics.by_name["t"].partitions.items()
                }
                == {index: -1 if index in gone else 11 for index in range(PARTITIONS)}
            ),
        )
        assert (await described(running))["b"] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
        await running.stop(11)
        (tmp_path / "11-b" / ".lock").rmdir()
        await running.start_broker(11, **two(tmp_path))
        await running.seen(lambda _image: all(s.leader == 11 for s in states(running).values()))
        assert len(await in_thread(consume, running.bootstrap, "t")) == len(VALUES)


async def test_replica_moves_while_read_and_written(tmp_path):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        broker = await running.start_broker(11, **two(tmp_path))
        first = await in_thread(produce, running.bootstrap, "t")
        directories = broker.parts.storage.directories
        targets = {
            index: next(
                each_directory
                for each_directory in directories.all
                if each_directory.path.name[-1] != directory
            )
            for index, directory in where(running).items()
        }
        more = [b"more %d" % number for number in range(300)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(in_thread, produce, running.bootstrap, "t", more)
            answer = await ask(running, move_all(targets))
        assert {
            partition.error_code for topic in answer.results for partition in topic.partitions
        } == {ErrorCode.NONE}
        await running.seen(
            lambda image: all(
                state.directory_of(11) == targets[index].directory_id
                for index, state in image.topics.by_name["t"].partitions.items()
            ),
        )
        assert {i: directories.holding(TopicPartition("t", i)) for i in targets} == targets
        await directories.purge()
        assert not [path for path in tmp_path.glob("11-*/t-*") if "." in path.name]
        found = await in_thread(consume, running.bootstrap, "t", 600)
        assert {value: found[value] for value in first} == first
        assert set(found) == set(first) | set(more)


def move_all(targets) -> AlterReplicaLogDirsRequest:
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=str(target.path),
                topics=[AlterReplicaLogDirTopic(name="t", partitions=[index])],
            )
            for index, target in targets.items()
        ]
    )


async def test_moves_that_cannot_be(tmp_path):
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        broker = await running.start_broker(11, **two(tmp_path))
        await in_thread(produce, running.bootstrap, "t")
        moves = broker.parts.families.data.moves
        here = where(running)[0]
        a, b = (str(tmp_path / f"11-{letter}") for letter in "ab")
        other = b if here == "a" else a
        assert moves.request(TopicPartition("t", 0), "/nowhere") is ErrorCode.LOG_DIR_NOT_FOUND
        assert moves.request(TopicPartition("new", 0), b) is ErrorCode.REPLICA_NOT_AVAILABLE
        assert moves.request(TopicPartition("t", 0), a if here == "a" else b) is ErrorCode.NONE
        assert (
            moves.of(broker.parts.families.data.partitions.find(TopicPartition("t", 0))) is None
        ), "it is there already"
        assert moves.request(TopicPartition("t", 0), other) is ErrorCode.NONE
        assert moves.request(TopicPartition("t", 0), other) is ErrorCode.NONE
        assert moves.request(TopicPartition("t", 0), a if here == "a" else b) is ErrorCode.NONE
        assert (
            moves.of(broker.parts.families.data.partitions.find(TopicPartition("t", 0))) is None
        ), "called back"
        broker.parts.storage.directories.at(other).health.fail("gone")
        assert moves.request(TopicPartition("t", 0), other) is ErrorCode.KAFKA_STORAGE_ERROR
        broker.parts.storage.directories.at(other).health.offline = None


@pytest.mark.parametrize("left", ["copy alone", "both names", "copy begun"])
async def test_crash_during_move_leaves_one_complete_replica(tmp_path, left):
    """KAFKA-8069: exactly one replica survives, and it is complete."""
    async with cluster(tmp_path, brokers=0, num_partitions="3") as running:
        await running.start_broker(11, **two(tmp_path))
        written = await in_thread(produce, running.bootstrap, "t")
        source = where(running)[0]
        await running.stop(11)
        here = tmp_path / f"11-{source}" / "t-0"
        there = tmp_path / f"11-{'b' if source == 'a' else 'a'}"
        future = there / f"t-0.{uuid.uuid4().hex}{FUTURE_SUFFIX}"
        match left:
            case "copy alone":
                shutil.copytree(here, future)
                here.rename(here.with_name(f"t-0.{uuid.uuid4().hex}-delete"))
            case "both names":
                shutil.copytree(here, there / "t-0")
                segment = next(here.glob("*.log"))
                segment.write_bytes(segment.read_bytes()[:200])
            case "copy begun":
                future.mkdir()
                shutil.copy(here / "partition.metadata", future)
        for letter in "ab":
            (tmp_path / f"11-{letter}" / ".kafka_cleanshutdown").unlink()
            if left == "both names":
                (tmp_path / f"11-{letter}" / "recovery-point-offset-checkpoint").unlink()
        broker = await running.start_broker(11, **two(tmp_path))
        assert await in_thread(consume, running.bootstrap, "t") == written
        id_there = broker.parts.storage.directories.at(str(there)).directory_id
        await running.seen(
            lambda image: image.topics.by_name["t"].partitions[0].directory_of(11) == id_there,
        )
        assert [
            directory for directory in broker.parts.storage.directories.all if ("t", 0) in directory
        ] == [broker.parts.storage.directories.at(str(there))]

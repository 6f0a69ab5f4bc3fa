"""AlterReplicaLogDirs: moves of replicas begin, or are refused partition by partition."""

import pytest

from tests.broker.batches import batch
from tests.broker.handlers.broker_client import BrokerClient
from tests.cluster.in_process import cluster, connected_to
from trimaran.log.batches.batch import iter_batches
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from trimaran.wire.messages.describe_log_dirs import DescribeLogDirsRequest


def moves(*wanted):
    """Returns a request; each of `moves` is (path, topic, partitions)."""
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(
                path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)]
            )
            for path, name, partitions in wanted
        ]
    )


def codes_of(answer):
    return {
        (result.topic_name, partition.partition_index): partition.error_code
        for result in answer.results
        for partition in result.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_replica_moves_to_other_directory(tmp_path, version):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    async with cluster(tmp_path, brokers=0) as running:
        broker = await running.start_broker(11, log_dirs=",".join(paths))
        async with connected_to(broker) as connection:
            one = BrokerClient(running, broker, connection)
            await one.create("t")
            directories = broker.parts.storage.directories
            leader = broker.parts.families.data.partitions.leader_of(TopicPartition("t", 0))
            leader.append(data := batch(b"v"), list(iter_batches(data)))
            here = await place_of(one)
            (there,) = set(paths) - {here}
            answer = await one.call(moves((there, "t", [0])), version)
            assert codes_of(answer) == {("t", 0): 0}
            target = directories.at(there).directory_id
            await one.seen(
                lambda image: image.topics.by_name["t"].partitions[0].directory_of(11) == target
            )
            assert await place_of(one) == there


async def place_of(one):
    answer = await one.call(DescribeLogDirsRequest(topics=None))
    (found,) = [
        directory.log_dir
        for directory in answer.results
        for topic in directory.topics
        if not topic.partitions[0].is_future_key
    ]
    return found


async def test_every_partition_has_its_refusal(tmp_path):
    async with cluster(tmp_path) as running:
        broker = running.brokers[11]
        async with connected_to(broker) as connection:
            one = BrokerClient(running, broker, connection)
            await one.create("t")
            here = str(broker.parts.storage.directories.all[0].path)
            request = moves(("/nowhere", "t", [0]), (here, "t", [1]), (here, "u", [0]))
            assert codes_of(await one.call(request)) == {
                ("t", 0): ErrorCode.LOG_DIR_NOT_FOUND,
                ("t", 1): ErrorCode.REPLICA_NOT_AVAILABLE,
                ("u", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
            }

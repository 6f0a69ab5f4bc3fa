"""Random requests to the share coordinators of Apache Kafka 4.4 and of ours: the same results, and the same records."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager

import pytest
import trio

from tests.broker.share_state.requests import change, delete, initialize, read, summary, write
from tests.cluster.in_process import cluster
from tests.interop import apache_kafka
from trimaran.broker.share_state.keys import key_text
from trimaran.broker.share_state.records import ShareRecordSerde, SnapshotRecord
from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.columns import decode_columns
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import SharePartitionKey
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.transport.client.node_connection import open_node_connection

VERSION = "4.4.0"
SETTINGS = {
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
REQUESTS = 250
UNKNOWN_ID = b"\x55" * 16
PASSING = {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


@pytest.fixture(scope="module")
def kafka_44(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kafka-4.4")
    with apache_kafka.running(
        directory, settings=SETTINGS, heap="512m", version=VERSION
    ) as running:
        yield running


class Peer:
    """A connection to a node, and its topic `t`."""

    def __init__(self, connection, topic_id):
        self.connection = connection
        self.topic_id = topic_id

    async def ask(self, request):
        """Returns the results by topic and partition, without the words of errors."""
        with trio.fail_after(30):
            while True:
                response = await self.connection.call(request, timeout=20)
                results = {
                    (topic.topic_id == self.topic_id, result.partition): result
                    for topic in response.results
                    for result in topic.partitions
                }
                if not any(result.error_code in PASSING for result in results.values()):
                    return {key: shown(result) for key, result in results.items()}
                await trio.sleep(0.1)

    async def find(self, *keys):
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=list(keys))
        with trio.fail_after(30):
            while True:
                found = (await self.connection.call(request, timeout=20)).coordinators
                if found[0].error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                    return [ErrorCode(one.error_code) for one in found]
                await trio.sleep(0.1)


def shown(result):
    return {
        field.name: getattr(result, field.name)
        for field in result.__fields__
        if field.name != "error_message"
    }


@asynccontextmanager
async def peer(host, port):
    async with open_node_connection(host, port) as connection:
        topic = CreatableTopic(
            name="t", num_partitions=3, replication_factor=1, assignments=[], configs=[]
        )
        answer = await connection.call(CreateTopicsRequest(topics=[topic]), timeout=20)
        yield Peer(connection, answer.topics[0].topic_id)


def requests(seed, topic_id):
    """Yields requests about the share partitions of two groups; those of two topics with the same seed only differ in
    the topic's id.
    """
    rng = random.Random(seed)
    kinds = ["initialize"] * 6 + rng.choices(
        ["initialize", "read", "write", "summary", "delete"], (1, 3, 12, 3, 1), k=REQUESTS
    )
    for kind in kinds:
        indexes = sorted(set(rng.choices([0, 1, 2, -1, 3], (9, 9, 9, 1, 1), k=3)))
        where = {
            "group_id": rng.choices(["g", "h", ""], (9, 9, 1))[0],
            "topic_id": rng.choices([topic_id, UNKNOWN_ID], (19, 1))[0],
        }
        if kind == "initialize":
            request = initialize(*indexes, start_offset=rng.choice([-1, 0, 5]), **where)
            request.topics[0].partitions[0].state_epoch = rng.choice([0, 1, 1, 2, -1])
            yield request
        elif kind == "read":
            yield read(*indexes, leader_epoch=rng.choice([-1, 0, 1, 1, 2, 2, 3]), **where)
        elif kind == "write":
            yield write(*(random_change(rng, index) for index in indexes), **where)
        else:
            yield (summary if kind == "summary" else delete)(*indexes, **where)


def random_change(rng, index):
    batches = []
    for _ in range(rng.randint(0, 4)):
        first = rng.randint(0, 20)
        batches.append((first, first + rng.randint(0, 5), rng.choice([0, 2, 4]), rng.randint(0, 3)))
    item = change(
        index,
        *batches,
        leader_epoch=rng.choice([-1, 0, 1, 1, 2, 2, 3]),
        start_offset=rng.choice([-1, 0, 3, 5, 8, 8, 12]),
        count=rng.choice([-1, 0, 1, 5]),
    )
    item.state_epoch = rng.choice([1, 1, 1, 1, 0, 2])
    return item


def records(directory, topic_id):
    """Returns the records of each share partition, without their times."""
    found = {}
    for path in sorted(directory.rglob("__share_group_state-*/*.log")):
        columns = decode_columns(list(iter_batches(path.read_bytes())))
        for key, value in zip(columns.keys(), columns.values(), strict=True):
            record = ShareRecordSerde().decode(key, value)
            place = record.key._replace(topic_id=b"")
            assert record.key.topic_id == topic_id
            if isinstance(record, SnapshotRecord) and record.state is not None:
                record = record._replace(state=record.state._replace(created_ms=0, written_ms=0))
            found.setdefault(place, []).append(record._replace(key=place))
    return found


@pytest.mark.parametrize("seed", [1])
async def test_both_coordinators_agree(tmp_path, kafka_44, seed):
    dashed = {key.replace(".", "_"): value for key, value in SETTINGS.items()}
    node = kafka_44.brokers[0]
    async with cluster(tmp_path, **dashed) as running:
        host, port = running.brokers[11].addresses["PLAINTEXT"]
        async with peer(host, port) as ours, peer("127.0.0.1", node.port) as theirs:
            for one in (ours, theirs):
                key = key_text(SharePartitionKey("g", one.topic_id, 1))
                found = await one.find(key, "bad", "g:bad:1", f" {key[1:]}", f"{key}::")
                assert found == [0, *[ErrorCode.INVALID_REQUEST] * 3, 0]
            for one, other in zip(
                requests(seed, ours.topic_id), requests(seed, theirs.topic_id), strict=True
            ):
                assert await ours.ask(one) == await theirs.ask(other)
            assert records(tmp_path, ours.topic_id) == records(node.directory, theirs.topic_id)

"""Moves between log directories whose last step fails, on three brokers: nothing that was acknowledged is lost."""

from __future__ import annotations

import errno
import os

import pytest
import trio

from tests.broker.test_end_to_end import in_thread
from tests.broker.test_log_directories import two
from tests.cluster.in_process import cluster
from trimaran.log.disk.files import Files
from trimaran.log.partitions.names import DELETE_SUFFIX, FUTURE_SUFFIX
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RECORDS = 1000
BROKERS = (11, 12, 13)


class FailingRename(Files):
    """A disk that renames no directory to or from a name with `suffix`."""

    def __init__(self, suffix: str, error: int) -> None:
        super().__init__()
        self._suffix, self._error = suffix, error
        self.has_failed = trio.Event()

    def rename(self, source, target):
        if source.name.endswith(self._suffix) or target.name.endswith(self._suffix):
            self.has_failed.set()
            raise OSError(self._error, os.strerror(self._error))
        super().rename(source, target)


def write(bootstrap, first=0, count=RECORDS):
    from tests.librdkafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    errors = []
    for number in range(first, first + count):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(20) == 0
    assert errors == [None] * count


def read(bootstrap, count=RECORDS):
    from confluent_kafka import TopicPartition as Assigned

    from tests.librdkafka import Consumer

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "enable.auto.commit": False}
    )
    consumer.assign([Assigned("t", 0, 0)])
    found = []
    while len(found) < count:
        for message in consumer.consume(count, 0.2):
            assert message.error() is None, message.error()
            found.append(int(message.value()))
    consumer.close()
    return found


@pytest.mark.parametrize(
    ("of", "suffix", "error"),
    [
        ("target", FUTURE_SUFFIX, errno.ENOSPC),
        ("source", DELETE_SUFFIX, errno.EACCES),
    ],
)
async def test_move_failing_at_end_loses_nothing(tmp_path, of, suffix, error):
    """RF 3, min ISR 2: the leader's replica moves, and one rename of the swap fails."""
    settings = {
        "num_partitions": "1",
        "default_replication_factor": "3",
        "min_insync_replicas": "2",
    }
    async with cluster(tmp_path, brokers=0, **settings) as running:
        for node_id in BROKERS:
            metadata = str(tmp_path / f"{node_id}-metadata")
            await running.start_broker(node_id, **two(tmp_path, node_id), metadata_log_dir=metadata)
        await in_thread(write, running.bootstrap)
        image = running.brokers[11].parts.metadata.image
        state = image.topics.by_name["t"].partitions[0]
        ctx = running.brokers[state.leader].contexts.directories
        partition = ctx.partitions.find(TopicPartition("t", 0))
        source = ctx.directories.holding(TopicPartition("t", 0))
        target = next(directory for directory in ctx.directories.all if directory is not source)
        failing = FailingRename(suffix, error)
        failed, kept = (target, source) if of == "target" else (source, target)
        failed._files = failed.futures._files = failing
        assert ctx.moves.request(TopicPartition("t", 0), str(target.path)) is ErrorCode.NONE
        with trio.fail_after(60):
            await failing.has_failed.wait()
            while ctx.moves.of(partition) is not None:
                await trio.lowlevel.checkpoint()
        assert failed.offline
        assert ctx.directories.holding(TopicPartition("t", 0)) is kept
        assert partition.log.log_end_offset == RECORDS
        assert await in_thread(read, running.bootstrap) == list(range(RECORDS))
        await running.seen(
            lambda image: (
                len(image.topics.by_name["t"].partitions[0].isr) == 3
                and image.topics.by_name["t"].partitions[0].directory_of(ctx.node_id)
                == kept.directory_id
            )
        )
        await in_thread(write, running.bootstrap, RECORDS, 10)
        ends = {
            node_id: broker.parts.families.data.partitions.find(
                TopicPartition("t", 0)
            ).log.log_end_offset
            for node_id, broker in running.brokers.items()
        }
        assert ends == dict.fromkeys(BROKERS, RECORDS + 10)

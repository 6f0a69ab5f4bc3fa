"""A broker that responds late or falsely: every read fails with a clear error, and no false response becomes data."""

import re

import pytest
import trio

from tests.wire.transport.cluster import open_cluster
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.spark.kafka_log.options import LogOptions
from trimaran.spark.origins.origin import DEFAULT_READING, DataUnreadable
from trimaran.spark.origins.running_cluster.brokers import BrokerRange, BrokerTask
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking

COUNT = 10
BATCH = build_batch([NewRecord(b"k", b"v%d" % i, 1000) for i in range(COUNT)])
FLIPPED = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
BEHIND = (-5).to_bytes(8, "big", signed=True) + BATCH[8:]
PATIENT, IMPATIENT = "20000", "300"  # milliseconds


def answer(records, *, topic="t", partition=0, code=0, times=1):
    data = PartitionData(
        partition_index=partition, error_code=code, high_watermark=COUNT, records=records
    )
    return FetchResponse(responses=[FetchableTopicResponse(topic=topic, partitions=[data])] * times)


def read(cluster, patience, times=1):
    bootstrap = ",".join(f"{host}:{port}" for host, port in cluster.addresses.values())
    options = LogOptions.parse(
        {"kafka.bootstrap.servers": bootstrap, "kafkaConsumer.pollTimeoutMs": patience}
    )
    task = BrokerTask(
        (BrokerRange(options.cluster, TopicPartition("t", 0), 1, b"", 0, COUNT, 0),) * times
    )
    try:
        return [located.batch.count for piece in task for located in piece.batches(DEFAULT_READING)]
    except DataUnreadable as error:
        return str(error)


async def read_from(answered, patience=PATIENT):
    """Returns the rows or the error of reading a broker that sends this response to each Fetch; None: no response."""

    @handles(FetchRequest, versions="4-12", access=open_to_all("a test"))
    def fetch(request, node, call):
        if answered is None:
            yield Blocking(trio.sleep_forever)
        return answered

    async with open_cluster([1], more=[fetch]) as cluster:
        return await trio.to_thread.run_sync(read, cluster, patience)


async def test_honest_broker_is_read_completely():
    assert await read_from(answer(BATCH)) == [COUNT]


async def test_ranges_of_task_share_connections():
    @handles(FetchRequest, versions="4-12", access=open_to_all("a test"))
    def fetch(request, node, call):
        return answer(BATCH)

    async with open_cluster([1], more=[fetch]) as cluster:
        counters = cluster.servers[1].counters
        assert await trio.to_thread.run_sync(read, cluster, PATIENT) == [COUNT]
        for_one = counters.accepted
        assert await trio.to_thread.run_sync(read, cluster, PATIENT, 20) == [COUNT] * 20
        assert counters.accepted == 2 * for_one


LIES = {
    "no batch": (answer(b"\xff" * 200), "malformed"),
    "a batch of nothing": (answer(bytes(200)), "malformed"),
    "a flipped bit": (answer(FLIPPED), "wrong CRC"),
    "another topic": (answer(BATCH, topic="u"), "malformed.*t-0"),
    "another partition": (answer(BATCH, partition=7), "malformed.*t-0"),
    "no topic": (answer(BATCH, times=0), "malformed"),
    "a topic twice": (answer(BATCH, times=2), "malformed"),
    "an error that nobody knows": (answer(b"", code=9999), "9999|UNKNOWN"),
}


@pytest.mark.parametrize(("lie", "told"), LIES.values(), ids=LIES)
async def test_false_response_is_reported(lie, told):
    assert re.search(told, await read_from(lie))


LATE = {
    "nothing, again and again": answer(b""),
    "what was read already": answer(BEHIND),
    "no answer": None,
}


@pytest.mark.parametrize("late", LATE.values(), ids=LATE)
async def test_missing_response_ends_the_read(late):
    assert isinstance(await read_from(late, IMPATIENT), str)

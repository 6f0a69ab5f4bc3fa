"""Traffic counters of a topic for fetches: requests, failures, and bytes by kind of reader."""

from __future__ import annotations

import pytest

from tests.broker.batches import batch
from tests.broker.fetching.fetch_requests import BROKERS, ask, fill, request, wanted
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.wire.identity import TopicPartition

BY_ID, BY_NAME = 17, 12


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, replica_selector_class="rack-aware")
    harness.set_image(topic("t", partition((11, 12)), partition((12, 11))), brokers=BROKERS)
    return harness


def counted(harness):
    traffic = harness.partitions.traffic.find("t")
    return {
        name: count
        for name in ("fetches", "failed_fetches", "bytes_out", "replication_bytes_out")
        if (count := getattr(traffic, name))
    }


async def test_follower_bytes_are_counted_apart_from_consumers(harness):
    size = fill(harness, 0)
    for offset in (0, 1):
        await ask(harness, request(wanted(0, offset), follower=12))
    assert counted(harness) == {"fetches": 2, "replication_bytes_out": size}
    for _ in range(3):
        await ask(harness, request(wanted(0)))
    assert counted(harness) == {
        "fetches": 5,
        "replication_bytes_out": size,
        "bytes_out": 3 * size,
    }


async def test_consumer_reads_from_follower_are_counted(harness):
    records = batch(b"a", base_offset=0, leader_epoch=0)
    follower = harness.partitions.find(TopicPartition("t", 1)).open_follower()
    follower.append(memoryview(bytearray(records)))
    follower.take_watermark(1, 0)
    await ask(harness, request(wanted(1)))
    assert counted(harness) == {"fetches": 1, "bytes_out": len(records)}


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize("asked", [wanted(0, 77), wanted(9), wanted(0, current_leader_epoch=9)])
async def test_failed_fetch_is_counted_as_failure(harness, version, asked):
    await ask(harness, request(asked), version)
    assert counted(harness) == {"fetches": 1, "failed_fetches": 1}


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
async def test_missing_topic_is_not_counted(harness, version):
    await ask(harness, request(wanted(0), topics=("unknown",)), version)
    assert [name for name, _ in harness.partitions.traffic] == ["t"]
    assert counted(harness) == {}


async def test_divergence_is_not_counted_as_failure(harness):
    fill(harness, 0)
    await ask(harness, request(wanted(0, 5, last_fetched_epoch=0)))
    assert counted(harness) == {"fetches": 1}

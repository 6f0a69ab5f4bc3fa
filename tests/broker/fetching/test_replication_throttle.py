"""A leader's responses to throttled followers (KIP-73): lagging ones receive no records while the rate is exceeded."""

from __future__ import annotations

import pytest

from tests.broker.fetching.fetch_requests import BROKERS, ask, fill, request, sizes, wanted
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.node.quotas.replication_throttle import ALL

REPLICAS = (11, 12, 13)
LAGS, IN_SYNC = 13, 12


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    partitions = [partition(REPLICAS, isr=(11, IN_SYNC)) for _ in range(2)]
    harness.set_image(topic("t", *partitions), brokers=BROKERS)
    fill(harness, 0, 1, values=(b"a", b"b"))
    harness.contexts.data.throttles.leader.set_replicas("t", [0])
    return harness


async def bytes_sent(harness, follower, **fields):
    """Returns the bytes sent of each partition."""
    asked = request(wanted(0), wanted(1), follower=follower, **fields)
    return list(sizes(await ask(harness, asked)).values())


async def test_lagging_replica_waits_while_throttled(harness):
    whole = await bytes_sent(harness, LAGS)
    harness.contexts.data.throttles.leader.bound = whole[0] / 2
    assert await bytes_sent(harness, LAGS) == [0, whole[1]]
    while harness.contexts.data.throttles.leader.delay(harness.now) >= 0.5:
        harness.now += 0.1
    assert harness.contexts.data.throttles.leader.delay(harness.now) > 0
    assert await bytes_sent(harness, LAGS) == [0, whole[1]]
    harness.now += 2.1
    assert await bytes_sent(harness, LAGS) == whole
    assert await bytes_sent(harness, LAGS) == [0, whole[1]]


async def test_in_sync_replicas_and_consumers_are_not_throttled(harness):
    whole = await bytes_sent(harness, LAGS)
    harness.contexts.data.throttles.leader.bound = 1
    assert await bytes_sent(harness, IN_SYNC) == whole
    assert await bytes_sent(harness, LAGS) == [0, whole[1]]


async def test_bytes_to_in_sync_replicas_count_too(harness):
    throttle = harness.contexts.data.throttles.leader
    whole = await bytes_sent(harness, IN_SYNC)
    assert throttle.rate(harness.now) == whole[0]
    await bytes_sent(harness, None)
    assert throttle.rate(harness.now) == whole[0], "of consumers nothing counts"


async def test_throttled_session_receives_records_later(harness):
    whole = await bytes_sent(harness, LAGS)
    throttle = harness.contexts.data.throttles.leader
    throttle.set_replicas("t", ALL)
    throttle.bound = whole[0] / 2
    opened = await ask(harness, request(wanted(0), wanted(1), follower=LAGS, epoch=0))
    assert set(sizes(opened).values()) == {0}
    harness.now += 4
    again = request(follower=LAGS, session_id=opened.session_id, epoch=1)
    assert list(sizes(await ask(harness, again)).values()) == whole

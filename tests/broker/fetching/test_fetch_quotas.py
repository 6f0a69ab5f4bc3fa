"""Client fetches are limited and charged against quotas; follower fetches are not, so that replication never waits."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.broker.batches import append
from tests.broker.calls import call, finished, through_wire
from tests.broker.fetching.fetch_requests import BROKERS, VERSION, request, sizes, wanted
from tests.cluster.data_side import open_harness, partition, topic
from trimaran.broker.handlers.fetch import fetch
from trimaran.wire.errors import ErrorCode


class Quotas:
    """Fetch quotas: notes the charged bytes, and returns the seconds that the client must wait."""

    def __init__(self, *, is_set=True):
        self.fetch = SimpleNamespace(is_set=is_set)
        self.most = 1 << 30
        self.seconds = 0.0
        self.bounded: list[int] = []
        self.charged: list[int] = []

    def fetch_bytes_max(self, _call, most):
        self.bounded.append(most)
        return min(most, self.most)

    def fetched(self, asked, size):
        self.charged.append(size)
        return asked.throttle(self.seconds)


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition((11, 12)), partition((11, 12))), brokers=BROKERS)
    for index in (0, 1):
        append(harness, b"x" * 1_000, index=index)
    harness.flush()
    for index in (0, 1):
        leader = harness.leader("t", index)
        leader.record_fetch(12, 1, 0, 112, SimpleNamespace(time=0.0))
    yield harness
    harness.directory.close(broker_epoch=None)


async def ask(harness, quotas, *partitions, **fields):
    """Returns the response, and the call that it belongs to."""
    message = through_wire(request(*partitions, **fields), VERSION)
    asked = call(message, VERSION)
    context = replace(harness.contexts.data, quotas=quotas)
    return await finished(fetch(message, context, asked)), asked


async def test_client_fetch_size_is_bounded_and_charged(harness):
    quotas = Quotas()
    both = wanted(0), wanted(1)
    answer, asked = await ask(harness, quotas, *both, max_bytes=5_000)
    assert quotas.bounded == [5_000]
    assert quotas.charged == [sum(sizes(answer).values())]
    assert (answer.throttle_time_ms, asked.is_exempt) == (0, False)
    quotas.most = 1_100
    answer, _ = await ask(harness, quotas, *both, max_bytes=5_000)
    assert sorted(map(bool, sizes(answer).values())) == [False, True]
    unset = Quotas(is_set=False)
    answer, _ = await ask(harness, unset, *both)
    assert (unset.bounded, unset.charged) == ([], [])
    assert all(sizes(answer).values())


async def test_client_over_quota_gets_nothing_now(harness):
    quotas = Quotas()
    quotas.seconds = 2.0
    answer, asked = await ask(harness, quotas, wanted(0))
    assert (answer.error_code, answer.throttle_time_ms) == (0, 2_000)
    assert answer.responses == []
    assert not asked.is_exempt


@pytest.mark.parametrize("is_set", [True, False])
async def test_follower_is_neither_limited_nor_delayed(harness, is_set):
    quotas = Quotas(is_set=is_set)
    quotas.most, quotas.seconds = 1, 2.0
    answer, asked = await ask(harness, quotas, wanted(0), wanted(1), follower=12)
    assert all(sizes(answer).values())
    assert (quotas.bounded, quotas.charged) == ([], [])
    assert asked.is_exempt
    assert answer.throttle_time_ms == 0


async def test_unproven_follower_is_not_exempt(harness):
    answer, asked = await ask(harness, Quotas(), wanted(0), follower=99)
    assert not asked.is_exempt
    codes = {partition.error_code for found in answer.responses for partition in found.partitions}
    assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}

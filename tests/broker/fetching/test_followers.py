"""KIP-392: a leader names a follower in the consumer's rack, and followers serve records below their own high
watermark.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.batches import batch
from tests.broker.calls import Paused
from tests.broker.fetching.fetch_requests import ask, ask_one, fill, request, start, wanted
from tests.cluster.data_side import config, open_harness, partition, registration, topic
from trimaran.broker.fetching.replica_selection import SELECTORS
from trimaran.node.config.broker_keys import REPLICA_SELECTORS
from trimaran.node.config.config_def import ConfigError
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.fetch import FetchResponse

RACKS = {11: "a", 12: "b", 13: "b", 14: "c"}
BROKERS = tuple(registration(node_id, rack=rack) for node_id, rack in RACKS.items())
REPLICAS = (11, 12, 13, 14)


@pytest.fixture
def harness(tmp_path):
    return open_harness(tmp_path, replica_selector_class="rack-aware")


def lead(harness, racks=RACKS, **changes):
    brokers = tuple(registration(node_id, rack=rack) for node_id, rack in racks.items())
    led = partition(**{"replicas": REPLICAS, **changes})
    harness.set_image(topic("t", led, partition()), brokers=brokers)
    fill(harness, 0, values=(b"a", b"b"))


def followed(harness, offset, follower):
    start(harness, request(wanted(0, offset), follower=follower))


async def preferred(harness, rack, offset=0, **fields):
    return (
        await ask_one(harness, wanted(0, offset), rack_id=rack, **fields)
    ).preferred_read_replica


async def test_most_advanced_follower_in_rack_is_preferred(harness):
    lead(harness)
    followed(harness, 1, 12)
    followed(harness, 2, 13)
    assert await preferred(harness, "b") == 13
    followed(harness, 2, 12)
    assert await preferred(harness, "b", 2) in (12, 13)


@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
async def test_client_without_follower_in_rack_uses_leader(harness, rack):
    lead(harness)
    assert await preferred(harness, rack) == -1


async def test_client_in_leaders_rack_or_none_uses_leader(harness):
    """A follower in the leader's rack, or with an empty rack name, is no nearer."""
    racks = {11: "a", 12: "a", 13: ""}
    lead(harness, racks)
    followed(harness, 2, 12)
    followed(harness, 2, 13)
    assert await preferred(harness, "a") == -1
    assert await preferred(harness, "") == -1


async def test_broker_0_is_named_like_other_brokers(harness):
    lead(harness, {11: "a", 0: "b"}, replicas=(11, 0))
    followed(harness, 2, 0)
    assert await preferred(harness, "b") == 0


async def test_follower_is_preferred_only_within_its_log(harness):
    lead(harness)
    start(harness, request(wanted(0, 2, log_start_offset=1), follower=12))
    assert [await preferred(harness, "b", offset) for offset in range(3)] == [-1, 12, 12]


@pytest.mark.parametrize("changes", [{"fenced": True}, {"listeners": ()}, None], ids=str)
async def test_unreachable_follower_is_not_preferred(harness, changes):
    """An unreachable follower is fenced, has no listener of the client's name, or is no longer registered."""
    lead(harness)
    followed(harness, 2, 12)
    assert await preferred(harness, "b") == 12
    others = [broker for broker in BROKERS if broker.id != 12]
    if changes is not None:
        others.append(replace(registration(12, rack="b"), **changes))
    harness.set_image(topic("t", partition(REPLICAS)), brokers=tuple(others))
    assert await preferred(harness, "b") == -1


async def test_unregistered_leader_still_names_followers(harness):
    lead(harness)
    followed(harness, 2, 12)
    others = [broker for broker in BROKERS if broker.id != 11]
    harness.set_image(topic("t", partition(REPLICAS)), brokers=tuple(others))
    assert await preferred(harness, "b") == 12


async def test_redirected_reader_is_informed_at_once_and_repeatedly(harness):
    """This holds in sessions too, and the redirected partition uses none of the response's byte limit."""
    lead(harness)
    followed(harness, 2, 12)
    fill(harness, 1)
    both = {"rack_id": "b", "max_bytes": 1}
    message = request(wanted(0), wanted(1), epoch=0, **both)
    first = await ask(harness, message)
    for epoch in range(1, 3):
        away, near = first.responses[0].partitions
        assert (away.preferred_read_replica, away.records) == (12, b"")
        assert near.records.size > 0
        again = request(session_id=first.session_id, epoch=epoch, max_wait_ms=60_000, **both)
        answer = start(harness, again)
        assert not isinstance(answer, Paused)
        first = FetchResponse(session_id=first.session_id, responses=answer.responses)


async def test_follower_redirects_no_clients(harness):
    """A follower does not even redirect a client to the leader in the client's rack."""
    follow(harness)
    data = await ask_one(harness, wanted(0), rack_id="b")
    assert (data.preferred_read_replica, data.records.end_offset) == (-1, 1)


async def test_session_is_woken_by_followers_first_records(harness):
    """The follower has no log to read before its first records."""
    harness.set_image(topic("t", partition((12, 11), leader_epoch=4)), brokers=BROKERS)
    opened = await ask(harness, request(wanted(0), epoch=0))
    follow(harness)
    answer = await ask(harness, request(session_id=opened.session_id, epoch=1))
    [data] = answer.responses[0].partitions
    assert data.records.end_offset == 1


async def test_lagging_or_out_of_sync_follower_not_preferred(harness):
    lead(harness, isr=(11, 12))
    followed(harness, 1, 12)
    followed(harness, 1, 14)
    assert await preferred(harness, "b", 2) == -1
    assert await preferred(harness, "c", 1) == -1


async def test_old_clients_read_from_the_leader(harness):
    lead(harness)
    followed(harness, 2, 12)
    data = await ask_one(harness, wanted(0), version=10)
    assert (data.error_code, data.preferred_read_replica) == (0, -1)


def follow(harness):
    """Follows with two records, one of which is known to be committed."""
    harness.set_image(topic("t", partition((12, 11), leader_epoch=4)), brokers=BROKERS)
    follower = harness.partitions.find(TopicPartition("t", 0)).open_follower()
    for offset in range(2):
        records = bytearray(batch(b"a", base_offset=offset, leader_epoch=4))
        follower.append(memoryview(records))
    follower.take_watermark(1, 0)
    return follower


async def test_follower_serves_records_below_own_watermark(harness):
    follower = follow(harness)
    data = await ask_one(harness, wanted(0, current_leader_epoch=4))
    assert (data.error_code, data.high_watermark, data.records.end_offset) == (0, 1, 1)
    data = await ask_one(harness, wanted(0, 1))
    assert (data.error_code, data.records) == (0, b"")
    follower.take_watermark(2, 0)
    assert (await ask_one(harness, wanted(0, 1))).records.end_offset == 2


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (wanted(0, 3), "OFFSET_OUT_OF_RANGE"),
        (wanted(0, current_leader_epoch=3), "FENCED_LEADER_EPOCH"),
        (wanted(0, current_leader_epoch=5), "UNKNOWN_LEADER_EPOCH"),
    ],
)
async def test_invalid_fetches_from_follower_are_refused(harness, asked, code):
    follow(harness)
    assert (await ask_one(harness, asked)).error_code == ErrorCode[code]


async def test_consumer_of_empty_follower_creates_nothing(harness):
    harness.set_image(topic("t", partition((12, 11))), brokers=BROKERS)
    assert (await ask_one(harness, wanted(0))).error_code == 0
    assert (await ask_one(harness, wanted(0, 1))).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert harness.partitions.find(TopicPartition("t", 0)).open_log is None


async def test_only_leader_serves_without_selector(tmp_path):
    harness = open_harness(tmp_path)
    follow(harness)
    assert (await ask_one(harness, wanted(0))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_only_known_selectors_may_be_named():
    assert set(SELECTORS) == set(REPLICA_SELECTORS)
    with pytest.raises(ConfigError, match="one of"):
        config(replica_selector_class="com.example.Selector")

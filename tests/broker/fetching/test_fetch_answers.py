"""The rules of Fetch responses, one test each: diverging logs, the current leader, the layout of a response."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from tests.broker.batches import append, batch
from tests.broker.calls import Paused
from tests.broker.fetching.fetch_requests import (
    BROKERS,
    ask,
    ask_one,
    fill,
    request,
    sizes,
    start,
    wanted,
)
from tests.cluster.data_side import open_harness, partition, topic, topic_id
from trimaran.log.batches.batch import iter_batches
from trimaran.wire.errors import ErrorCode


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(3)]), brokers=BROKERS)
    return harness


# -- divergence


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (0, 2, None),  # the end of the epoch here
        (0, 3, (0, 2)),
        (0, 9, (0, 2)),
        (1, 2, (0, 2)),  # an epoch that this log does not have
        (1, 1, (0, 2)),
        (2, 3, None),
        (2, 4, None),
        (2, 5, (2, 4)),
    ],
)
async def test_reader_learns_end_of_its_epoch(harness, last_epoch, offset, expected):
    """KIP-595: it receives no records until it has truncated its log."""
    fill(harness, 0, values=(b"a", b"b"))
    harness.set_image(topic("t", partition(leader_epoch=2)), brokers=BROKERS)
    fill(harness, 0, values=(b"c", b"d"))
    data = await ask_one(harness, wanted(0, offset, last_fetched_epoch=last_epoch))
    found = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
    assert (data.error_code, found) == (0, expected or (-1, -1))
    assert bool(data.records) == (expected is None and offset < 4)


async def test_divergence_is_repeated_until_follower_truncates(harness):
    fill(harness, 0, values=(b"a", b"b"))
    message = request(wanted(0, 5, last_fetched_epoch=0), epoch=0, max_wait_ms=60_000)
    answer = start(harness, message)
    assert not isinstance(answer, Paused)
    again = await ask(harness, request(session_id=answer.session_id, epoch=1))
    assert again.responses[0].partitions[0].diverging_epoch.end_offset == 2


async def test_reader_of_older_epoch_diverges_at_offset_zero(harness):
    harness.set_image(topic("t", partition(leader_epoch=3)), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    data = await ask_one(harness, wanted(0, 1, last_fetched_epoch=1))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 0)


# -- epochs, and the current leader


@pytest.mark.parametrize(("version", "named"), [(15, (-1, -1)), (16, (12, 4)), (17, (12, 4))])
async def test_moved_partition_returns_its_current_leader(harness, version, named):
    """KIP-951."""
    harness.set_image(topic("t", partition((11, 12), 12, leader_epoch=4)), brokers=BROKERS)
    response = await ask(harness, request(wanted()), version)
    [data] = response.responses[0].partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = data.current_leader
    assert (leader.leader_id, leader.leader_epoch) == named
    assert [node_endpoint.node_id for node_endpoint in response.node_endpoints] == (
        [12] if version > 15 else []
    )


async def test_current_leader_is_returned_only_for_stale_epoch(harness):
    harness.set_image(topic("t", partition(leader_epoch=4)), brokers=BROKERS)
    data = await ask_one(harness, wanted(current_leader_epoch=3))
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (11, 4)
    for refused in (wanted(current_leader_epoch=5), wanted(0, 77), wanted(9)):
        data = await ask_one(harness, refused)
        assert data.error_code != 0
        assert data.current_leader.leader_id == -1


async def test_error_has_no_watermark_or_records(harness):
    data = await ask_one(harness, wanted(9))
    assert (data.high_watermark, data.records) == (-1, b"")


@pytest.mark.parametrize(
    ("named", "code"),
    [(-1, 0), (0, ErrorCode.FENCED_LEADER_EPOCH), (1, 0), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_session_is_bound_to_its_named_epoch(harness, named, code):
    """This holds even if the session has watched the partition for a long time."""
    first = await ask(harness, request(wanted(current_leader_epoch=0), epoch=0))
    harness.set_image(topic("t", partition(leader_epoch=1, partition_epoch=1)), brokers=BROKERS)
    again = request(wanted(current_leader_epoch=named), session_id=first.session_id, epoch=1)
    for data in (
        fetched for found in (await ask(harness, again)).responses for fetched in found.partitions
    ):
        assert data.error_code == code
    third = request(session_id=first.session_id, epoch=2)
    codes = [
        partition.error_code
        for found in (await ask(harness, third)).responses
        for partition in found.partitions
    ]
    assert codes == ([code] if code else []), "an error is repeated until it has passed"


async def test_session_reads_recreated_topic(harness):
    first = await ask(harness, request(wanted(0, 0), epoch=0), 12)
    harness.set_image()
    new = topic("t", partition())._replace(id=b"another".ljust(16))
    harness.set_image(new, brokers=BROKERS)
    fill(harness, 0)
    answer = await ask(harness, request(session_id=first.session_id, epoch=1), 12)
    assert sizes(answer)[0] > 0


# -- unused partitions


async def test_in_sync_follower_needs_no_log(harness):
    harness.set_image(topic("t", partition((11, 12)), partition((11, 12))), brokers=BROKERS)
    assert isinstance(
        start(harness, request(wanted(0), follower=12, epoch=0, max_wait_ms=60_000)),
        Paused,
    ), "that is nothing to tell at once"
    first = await ask(harness, request(wanted(0), wanted(1), follower=12, epoch=0))
    for data in first.responses[0].partitions:
        assert (data.error_code, data.high_watermark, data.log_start_offset) == (0, 0, 0)
        assert (data.last_stable_offset, data.records) == (0, b"")
    assert harness.directory.partitions() == set()
    deferred = start(
        harness, request(follower=12, session_id=first.session_id, epoch=1, max_wait_ms=60_000)
    )
    assert isinstance(deferred, Paused)
    append(harness, b"a", index=1)
    with trio.fail_after(30):
        assert set(sizes(await deferred.finish())) == {1}
    assert harness.directory.partitions() == {("t", 1)}


async def test_leader_change_without_records_is_not_reported(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    first = await ask(harness, request(wanted(0), follower=12, epoch=0))
    harness.leader()
    again = await ask(harness, request(follower=12, session_id=first.session_id, epoch=1))
    assert again.responses == []


async def test_fetch_beyond_unused_partition_is_out_of_range(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    data = await ask_one(harness, wanted(0, 1), follower=12, epoch=0)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# -- the layout of a response


async def test_full_fetch_is_answered_in_request_order(harness):
    both = (topic("t", partition(), partition()), topic("u", partition(), partition()))
    harness.set_image(*both, brokers=BROKERS)
    response = await ask(harness, request(wanted(1), wanted(0), topics=("u", "t")))
    found = [
        (answered.topic_id, [data.partition_index for data in answered.partitions])
        for answered in response.responses
    ]
    assert found == [(topic_id("u"), [1, 0]), (topic_id("t"), [1, 0])]


@pytest.fixture
def transaction(tmp_path):
    """Opens a log with a record, and a second one in an open transaction."""
    before = open_harness(tmp_path)
    before.set_image(topic("t", partition()), brokers=BROKERS)
    append(before, b"a")
    data = batch(b"b", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    before.leader().append(data, list(iter_batches(data)))
    before.flush()
    before.partitions.close()
    before.directory.close(broker_epoch=5, high_watermarks={("t", 0): 2})
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()), brokers=BROKERS)
    return harness


async def test_read_committed_stops_at_open_transaction(transaction):
    data = await ask_one(transaction, wanted(0, 1), isolation_level=1)
    assert (data.high_watermark, data.last_stable_offset, data.records) == (2, 1, b"")


async def test_read_uncommitted_learns_known_last_stable_offset(transaction):
    """A log is not scanned for readers that do not need the last stable offset."""
    data = await ask_one(transaction, wanted(0, 1))
    assert (data.high_watermark, data.last_stable_offset) == (2, 2)
    assert data.records.size > 0
    log = transaction.leader().log
    assert not log.knows_producers
    assert log.producers.transactions.last_stable_offset(2) == 1
    data = await ask_one(transaction, wanted(0, 1))
    assert (data.high_watermark, data.last_stable_offset) == (2, 1)
    assert data.records.size > 0


async def test_diverging_reader_also_learns_last_stable_offset(transaction):
    asked = wanted(0, 9, last_fetched_epoch=0)
    data = await ask_one(transaction, asked, isolation_level=1)
    assert data.diverging_epoch.end_offset == 2
    assert (data.high_watermark, data.last_stable_offset) == (2, 1)


async def test_only_read_committed_gets_aborted_transactions(harness):
    """The field is null for other readers; for read_committed it is a list, which may be empty."""
    fill(harness, 0)
    assert (await ask_one(harness, wanted())).aborted_transactions is None
    for offset in (0, 1):
        data = await ask_one(harness, wanted(0, offset), isolation_level=1)
        assert data.aborted_transactions == []

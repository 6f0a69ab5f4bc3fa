"""The rules of one Fetch, a test for each: how much is given, up to where, when it is enough, what a follower is
told.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from broker.handlers.fetch import fetch
from broker.partitions.leader import LeaderEpoch
from log.batches.batch import iter_batches
from log.partitions.partition_log import PartitionLog
from tests.broker.batches import append, batch
from tests.broker.calls import call, finished, through_wire
from tests.broker.harness import open_harness, partition, registration, topic, topic_id
from wire.errors import ErrorCode, KafkaError
from wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from wire.transport.calls import DeferredResponse

VERSION = 17
BROKERS = tuple(registration(node_id) for node_id in (0, 11, 12, 13))


def wanted(index=0, offset=0, *, max_bytes=1 << 20, **fields):
    return FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **fields
    )


def request(*partitions, follower=None, session_id=0, epoch=-1, topics=("t",), **fields):
    state = ReplicaState()
    if follower is not None:
        state = ReplicaState(replica_id=follower, replica_epoch=100 + follower)
    values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
    asked = [
        FetchTopic(topic=name, topic_id=topic_id(name), partitions=list(partitions))
        for name in (topics if partitions else ())
    ]
    return FetchRequest(
        replica_state=state, session_id=session_id, session_epoch=epoch, topics=asked, **values
    )


def start(harness, message, version=VERSION):
    message = through_wire(message, version)
    return fetch(message, harness.context, call(message, version))


async def ask(harness, message, version=VERSION):
    return await finished(start(harness, message, version))


async def ask_one(harness, *partitions, version=VERSION, **fields):
    """The answer for the only partition."""
    response = await ask(harness, request(*partitions, **fields), version)
    [answered] = response.responses
    [data] = answered.partitions
    return data


def sizes(response):
    """Partition index to bytes of records, in the order of the answer."""
    return {
        data.partition_index: data.records.size if data.records else 0
        for answered in response.responses
        for data in answered.partitions
    }


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", *[partition() for _ in range(3)]), brokers=BROKERS)
    return harness


def fill(harness, *indexes, values=(b"a",)):
    """One batch a value in each of the partitions; returns the size of a batch of one byte."""
    for index in indexes:
        for value in values:
            append(harness, value, index=index)
    harness.flush()
    return len(batch(b"a"))


# -- how much


async def test_no_more_than_asked_for_of_a_partition(harness):
    size = fill(harness, 0, values=(b"a", b"b", b"c"))
    for count in (1, 2, 3):
        assert (await ask_one(harness, wanted(max_bytes=count * size))).records.size == count * size
    assert (await ask_one(harness, wanted(max_bytes=3 * size - 1))).records.size == 2 * size


async def test_no_more_than_asked_for_in_all(harness):
    size = fill(harness, 0, 1, 2, values=(b"a", b"b"))
    partitions = [wanted(index) for index in range(3)]
    for allowed, given in (
        (6 * size, [2, 2, 2]),
        (5 * size, [2, 2, 1]),
        (3 * size, [2, 1, 0]),
        (2 * size, [2, 0, 0]),
        (2 * size + 1, [2, 0, 0]),
    ):
        found = sizes(await ask(harness, request(*partitions, max_bytes=allowed)))
        assert list(found.values()) == [count * size for count in given]


async def test_only_the_first_records_of_an_answer_may_be_larger_than_asked_for(harness):
    """KIP-74: else nobody came by a batch that is larger than the limits."""
    fill(harness, 0, 1, values=(b"x" * 500,))
    found = sizes(await ask(harness, request(wanted(0, max_bytes=1), wanted(1, max_bytes=1))))
    assert found[0] > 500
    assert found[1] == 0
    found = sizes(await ask(harness, request(wanted(0, 1), wanted(1, max_bytes=1))))
    assert found[1] > 500, "the first has none"


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"max_bytes": -1}])
async def test_who_asks_for_no_bytes_gets_the_first_records_all_the_same(harness, limits):
    """KIP-74, of the whole answer and of a partition."""
    fill(harness, 0)
    assert (await ask_one(harness, wanted(), **limits)).records.size > 0
    assert (await ask_one(harness, wanted(**limits))).records.size > 0


async def test_an_error_and_a_divergence_take_no_room(harness):
    fill(harness, 1)
    for other in (wanted(9), wanted(0, 5, last_fetched_epoch=0)):
        found = sizes(await ask(harness, request(other, wanted(1), max_bytes=1)))
        assert found[1] > 0


async def test_clients_of_old_are_told_at_once_that_a_message_is_too_large(harness):
    """Before KIP-74 they asked again with more room."""
    fill(harness, 0, values=(b"x" * 500,))
    message = request(wanted(max_bytes=50), max_wait_ms=60_000)
    with trio.fail_after(5):
        answer = await ask(harness, message, 2)
    [data] = answer.responses[0].partitions
    assert data.error_code == 0
    assert 0 < len(bytes(data.records)) <= 50


async def test_who_was_not_reached_comes_first_next_time(harness):
    """Else a busy partition would starve the others of its session."""
    fill(harness, 0, 1, 2)
    partitions = [wanted(index) for index in range(3)]
    first = await ask(harness, request(*partitions, epoch=0, max_bytes=1))
    given = [[index for index, size in sizes(first).items() if size]]
    for epoch in range(1, 6):
        answer = await ask(harness, request(session_id=first.session_id, epoch=epoch, max_bytes=1))
        given.append([index for index, size in sizes(answer).items() if size])
    assert given == [[0], [1], [2], [0], [1], [2]]


# -- when it is enough


async def test_enough_is_what_was_asked_for_at_least(harness):
    size = fill(harness, 0)
    assert not isinstance(
        start(harness, request(wanted(), max_wait_ms=9, min_bytes=size)), DeferredResponse
    )
    assert isinstance(
        start(harness, request(wanted(), max_wait_ms=9, min_bytes=size + 1)), DeferredResponse
    )


async def test_what_several_partitions_have_together_is_enough(harness):
    size = fill(harness, 0, 1)
    both = request(wanted(0), wanted(1), max_wait_ms=60_000, min_bytes=2 * size)
    assert not isinstance(start(harness, both), DeferredResponse)


async def test_what_is_looked_at_twice_is_counted_once(harness, autojump_clock):
    size = fill(harness, 0)
    deferred = start(harness, request(wanted(), max_wait_ms=10_000, min_bytes=3 * size))
    answers = []

    async def wait():
        answers.append(await deferred.finish())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        fill(harness, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == [], "two batches are no three"
        fill(harness, 0)
        await trio.testing.wait_all_tasks_blocked()
        assert sizes(answers[0]) == {0: 3 * size}


async def test_an_error_is_told_at_once(harness):
    """However little there is of the others."""
    for message in (
        request(wanted(0), wanted(9), max_wait_ms=60_000),
        request(wanted(9), wanted(0), max_wait_ms=60_000),
        request(wanted(0), wanted(1, 77), max_wait_ms=60_000),
    ):
        assert not isinstance(start(harness, message), DeferredResponse)


async def test_a_follower_is_not_woken_for_a_watermark_alone(harness, autojump_clock):
    """It hears of it with whatever comes next: the next records, or the end of its wait."""
    harness.set_image(topic("t", partition((11, 12, 13))), brokers=BROKERS)
    fill(harness, 0)
    first = await ask(harness, request(wanted(0, 1), follower=12, epoch=0))
    deferred = start(
        harness, request(follower=12, session_id=first.session_id, epoch=1, max_wait_ms=500)
    )
    assert isinstance(deferred, DeferredResponse)
    began, answers = trio.current_time(), []

    async def wait():
        answers.append(await deferred.finish())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        await ask(harness, request(wanted(0, 1), follower=13))
        assert harness.leader().high_watermark.offset == 1
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
    assert trio.current_time() - began == pytest.approx(0.5)
    [data] = answers[0].responses[0].partitions
    assert (data.high_watermark, data.records) == (1, b"")


# -- up to where


@pytest.mark.parametrize(
    ("offset", "code"),
    [
        (0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (1, 0),
        (2, 0),
        (3, 0),
        (4, ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
async def test_offsets_from_the_log_s_start_to_its_end_are_in_range(harness, offset, code):
    fill(harness, 0, values=(b"a", b"b", b"c"))
    harness.leader().delete_records_before(1)
    assert (await ask_one(harness, wanted(0, offset))).error_code == code


async def test_a_consumer_between_watermark_and_end_waits(harness):
    """It has read from the leader before; nothing is wrong with its offset."""
    fill(harness, 0)
    append(harness, b"b")
    data = await ask_one(harness, wanted(0, 2))
    assert (data.error_code, data.high_watermark, data.records) == (0, 1, b"")


async def test_what_is_known_to_be_committed_is_read_before_all_is_known(harness):
    """P7: a new leader does not know yet whether the rest was."""
    harness.set_image(topic("t", partition((11, 12, 13))), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    for follower in (12, 13):
        await ask(harness, request(wanted(0, 1), follower=follower))
    harness.set_image(topic("t", partition((11, 12, 13), leader_epoch=1)), brokers=BROKERS)
    assert (await ask_one(harness, wanted(0, 0))).records.size > 0
    assert (await ask_one(harness, wanted(0, 1))).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    data = await ask_one(harness, wanted(0, 2), follower=12)
    assert (data.error_code, data.high_watermark) == (0, 1), "followers wait as always"


async def test_a_follower_below_the_log_s_start_proves_nothing(harness):
    harness.set_image(topic("t", partition((11, 12), isr=(11,))), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    harness.leader().delete_records_before(1)
    data = await ask_one(harness, wanted(0, 0), follower=12)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert harness.leader().followers[12].end_offset == -1


async def test_an_idle_partition_of_a_session_costs_nothing(harness, monkeypatch):
    harness.set_image(topic("t", *[partition((11, 12))] * 3), brokers=BROKERS)
    fill(harness, 0, 1, 2)
    looks = []
    real = LeaderEpoch.record_fetch

    def record_fetch(self, *what):
        looks.append(self.replica.index)
        real(self, *what)

    monkeypatch.setattr(LeaderEpoch, "record_fetch", record_fetch)
    positions = [wanted(index, 1) for index in range(3)]
    first = await ask(harness, request(*positions, follower=12, epoch=0))
    await ask(harness, request(follower=12, session_id=first.session_id, epoch=1))
    looks.clear()
    await ask(harness, request(follower=12, session_id=first.session_id, epoch=2))
    assert looks == []
    append(harness, b"b", index=1)
    await ask(harness, request(follower=12, session_id=first.session_id, epoch=3))
    assert looks == [1]


@pytest.mark.parametrize(
    ("code", "noted"),
    [(ErrorCode.KAFKA_STORAGE_ERROR, True), (ErrorCode.OFFSET_OUT_OF_RANGE, False)],
)
async def test_records_that_cannot_be_read_are_looked_at(harness, monkeypatch, code, noted):
    """P17: this replica may have to make room for another."""
    fill(harness, 0)
    held = harness.partitions.find("t", 0)
    suspected = []
    held.services.suspects.add = lambda *what: suspected.append(what)

    def read(self, *_, **__):
        raise KafkaError(code)

    monkeypatch.setattr(PartitionLog, "read", read)
    data = (await ask(harness, request(wanted(max_bytes=777), epoch=0))).responses[0].partitions[0]
    assert data.error_code == code
    assert suspected == ([(("t", 0), 0, 777)] if noted else [])
    assert (await ask_one(harness, wanted(0), epoch=-1)).error_code == code


async def test_followers_read_beyond_the_watermark_broker_0_too(harness):
    harness.set_image(topic("t", partition((11, 0))), brokers=BROKERS)
    fill(harness, 0)
    assert sizes(await ask(harness, request(wanted()))) == {0: 0}
    data = await ask_one(harness, wanted(), follower=0)
    assert (data.records.size > 0, data.high_watermark) == (True, 0)
    await ask(harness, request(wanted(0, 1), follower=0))
    assert harness.leader().high_watermark.offset == 1


async def test_what_a_follower_has_is_known_with_its_fetch(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    data = await ask_one(harness, wanted(0, 1, log_start_offset=1), follower=12)
    assert data.high_watermark == 1, "told with the same answer"
    progress = harness.leader().followers[12]
    assert (progress.end_offset, progress.log_start_offset, progress.broker_epoch) == (1, 1, 112)


async def test_a_follower_that_gets_the_same_again_and_again_is_noted(harness):
    """P17; of consumers nobody keeps count."""
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    fill(harness, 0)
    leader, suspected = harness.leader(), []
    leader.replica.services.suspects.add = lambda *what: suspected.append(what)
    for _ in range(3):
        await ask(harness, request(wanted(0, 1), follower=12))
    assert suspected == [], "it was given nothing"
    for _ in range(3):
        await ask(harness, request(wanted()))
    assert suspected == []
    for _ in range(3):
        await ask(harness, request(wanted(max_bytes=777), follower=12))
    assert suspected == [(("t", 0), 0, 777)]


# -- divergence


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (0, 2, None),  # up to where the epoch ends here
        (0, 3, (0, 2)),
        (0, 9, (0, 2)),
        (1, 2, (0, 2)),  # an epoch that this log does not have
        (1, 1, (0, 2)),
        (2, 3, None),
        (2, 4, None),
        (2, 5, (2, 4)),
    ],
)
async def test_a_reader_is_told_where_its_epoch_ends_here(harness, last_epoch, offset, expected):
    """KIP-595: and is given nothing until it has cut its log."""
    fill(harness, 0, values=(b"a", b"b"))
    harness.set_image(topic("t", partition(leader_epoch=2)), brokers=BROKERS)
    fill(harness, 0, values=(b"c", b"d"))
    data = await ask_one(harness, wanted(0, offset, last_fetched_epoch=last_epoch))
    found = (data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
    assert (data.error_code, found) == (0, expected or (-1, -1))
    assert bool(data.records) == (expected is None and offset < 4)


async def test_a_divergence_is_told_at_once_and_until_it_is_mended(harness):
    fill(harness, 0, values=(b"a", b"b"))
    message = request(wanted(0, 5, last_fetched_epoch=0), epoch=0, max_wait_ms=60_000)
    answer = start(harness, message)
    assert not isinstance(answer, DeferredResponse)
    again = await ask(harness, request(session_id=answer.session_id, epoch=1))
    assert again.responses[0].partitions[0].diverging_epoch.end_offset == 2


async def test_who_has_read_an_epoch_older_than_the_log_and_beyond_its_start_begins_anew(harness):
    harness.set_image(topic("t", partition(leader_epoch=3)), brokers=BROKERS)
    fill(harness, 0, values=(b"a", b"b"))
    data = await ask_one(harness, wanted(0, 1, last_fetched_epoch=1))
    assert (data.diverging_epoch.epoch, data.diverging_epoch.end_offset) == (1, 0)


# -- whose epoch, and who leads instead


@pytest.mark.parametrize(("version", "named"), [(15, (-1, -1)), (16, (12, 4)), (17, (12, 4))])
async def test_who_leads_instead_is_told(harness, version, named):
    """KIP-951."""
    harness.set_image(topic("t", partition((11, 12), 12, leader_epoch=4)), brokers=BROKERS)
    response = await ask(harness, request(wanted()), version)
    [data] = response.responses[0].partitions
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = data.current_leader
    assert (leader.leader_id, leader.leader_epoch) == named
    assert [one.node_id for one in response.node_endpoints] == ([12] if version > 15 else [])


async def test_who_leads_is_told_to_who_is_behind_and_not_for_other_errors(harness):
    harness.set_image(topic("t", partition(leader_epoch=4)), brokers=BROKERS)
    data = await ask_one(harness, wanted(current_leader_epoch=3))
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (11, 4)
    for refused in (wanted(current_leader_epoch=5), wanted(0, 77), wanted(9)):
        data = await ask_one(harness, refused)
        assert data.error_code != 0
        assert data.current_leader.leader_id == -1


async def test_an_error_comes_without_numbers(harness):
    data = await ask_one(harness, wanted(9))
    assert (data.high_watermark, data.records) == (-1, b"")


@pytest.mark.parametrize(
    ("named", "code"),
    [(-1, 0), (0, ErrorCode.FENCED_LEADER_EPOCH), (1, 0), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
async def test_a_session_is_held_to_the_epoch_that_it_named(harness, named, code):
    """Also where it has listened to the partition for long."""
    first = await ask(harness, request(wanted(current_leader_epoch=0), epoch=0))
    harness.set_image(topic("t", partition(leader_epoch=1, partition_epoch=1)), brokers=BROKERS)
    again = request(wanted(current_leader_epoch=named), session_id=first.session_id, epoch=1)
    for data in (
        one for found in (await ask(harness, again)).responses for one in found.partitions
    ):
        assert data.error_code == code
    third = request(session_id=first.session_id, epoch=2)
    codes = [
        one.error_code
        for found in (await ask(harness, third)).responses
        for one in found.partitions
    ]
    assert codes == ([code] if code else []), "an error is repeated until it has passed"


async def test_a_session_reads_the_topic_that_was_made_anew_under_its_name(harness):
    first = await ask(harness, request(wanted(0, 0), epoch=0), 12)
    harness.set_image()
    new = topic("t", partition())._replace(id=b"another".ljust(16))
    harness.set_image(new, brokers=BROKERS)
    fill(harness, 0)
    answer = await ask(harness, request(session_id=first.session_id, epoch=1), 12)
    assert sizes(answer)[0] > 0


# -- partitions that nobody used


async def test_a_follower_in_sync_with_an_unused_partition_is_told_so_without_a_log(harness):
    harness.set_image(topic("t", partition((11, 12)), partition((11, 12))), brokers=BROKERS)
    assert isinstance(
        start(harness, request(wanted(0), follower=12, epoch=0, max_wait_ms=60_000)),
        DeferredResponse,
    ), "that is nothing to tell at once"
    first = await ask(harness, request(wanted(0), wanted(1), follower=12, epoch=0))
    for data in first.responses[0].partitions:
        assert (data.error_code, data.high_watermark, data.log_start_offset) == (0, 0, 0)
        assert (data.last_stable_offset, data.records) == (0, b"")
    assert harness.directory.partitions() == set()
    deferred = start(
        harness, request(follower=12, session_id=first.session_id, epoch=1, max_wait_ms=60_000)
    )
    assert isinstance(deferred, DeferredResponse)
    append(harness, b"a", index=1)
    with trio.fail_after(5):
        assert set(sizes(await deferred.finish())) == {1}
    assert harness.directory.partitions() == {("t", 1)}


async def test_a_leader_that_begins_without_a_record_is_no_news_to_who_was_told_of_none(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    first = await ask(harness, request(wanted(0), follower=12, epoch=0))
    harness.leader()
    again = await ask(harness, request(follower=12, session_id=first.session_id, epoch=1))
    assert again.responses == []


async def test_who_asks_an_unused_partition_for_more_is_out_of_range(harness):
    harness.set_image(topic("t", partition((11, 12))), brokers=BROKERS)
    data = await ask_one(harness, wanted(0, 1), follower=12, epoch=0)
    assert data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# -- the shape of an answer


async def test_a_full_fetch_is_answered_in_its_order_topic_by_topic(harness):
    both = (topic("t", partition(), partition()), topic("u", partition(), partition()))
    harness.set_image(*both, brokers=BROKERS)
    response = await ask(harness, request(wanted(1), wanted(0), topics=("u", "t")))
    found = [
        (answered.topic_id, [data.partition_index for data in answered.partitions])
        for answered in response.responses
    ]
    assert found == [(topic_id("u"), [1, 0]), (topic_id("t"), [1, 0])]


@pytest.mark.parametrize("isolation_level", [0, 1])
async def test_the_last_stable_offset_is_where_a_transaction_is_open(tmp_path, isolation_level):
    """Who reads committed records alone stops there, also in a log that was just opened."""
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
    data = await ask_one(harness, wanted(0, 1), isolation_level=isolation_level)
    assert data.high_watermark == 2
    if isolation_level:
        assert (data.last_stable_offset, data.records) == (1, b"")
    else:
        assert data.records.size > 0
        assert not harness.leader().log.knows_producers, "not scanned for who does not go by it"


async def test_who_reads_what_is_committed_alone_is_told_of_aborted_transactions(harness):
    """None for who does not ask, a list for who does, be it empty."""
    fill(harness, 0)
    assert (await ask_one(harness, wanted())).aborted_transactions is None
    for offset in (0, 1):
        data = await ask_one(harness, wanted(0, offset), isolation_level=1)
        assert data.aborted_transactions == []

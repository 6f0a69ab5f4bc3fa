"""One share partition on its leader: loading, the order of writes, the end, and calls to its owner."""

from __future__ import annotations

import pytest
import trio

from tests.broker.batches import append
from tests.broker.sharing.led import ACCEPT, KEY, REJECT, RELEASE, Led, Reader, led, settle
from trimaran.broker.groups.heartbeating.work import done
from trimaran.broker.share_state.states import DeliveryState, StateBatch
from trimaran.broker.sharing.acknowledging import PIECE, Acknowledgement
from trimaran.broker.sharing.led_share import LedShare
from trimaran.wire.errors import ErrorCode, KafkaError


def code_of(pending):
    with pytest.raises(KafkaError) as refused:
        _ = pending.response
    return refused.value.code


async def test_owner_is_notified_of_runs_and_deadlines(tmp_path):
    async with led(tmp_path) as given:
        owner = given.owner
        assert owner.counts.load_times.count == 1
        assert 0 <= owner.counts.load_times.seconds < 60
        assert owner.told == [("timer", None), ("runs", 0)]
        owner.told.clear()
        assert given.acquire(0, 9) == [(0, 9, 1)]
        owner.time = 5.0
        given.acquire(10, 19)
        assert owner.told == [("timer", 30.0), ("runs", 1), ("timer", 30.0), ("runs", 2)]
        owner.told.clear()
        pending = given.acknowledge((0, 3, [ACCEPT]))
        assert owner.told == [("timer", 30.0), ("runs", 3)]
        await settle()
        assert pending.response is None
        assert owner.told[2:] == [("timer", 30.0), ("runs", 3)]
        assert given.states.written == [[(0, 3, DeliveryState.ACKNOWLEDGED, 1)]]
        assert given.states.summaries[KEY].start_offset == 0
        given.acknowledge((4, 9, [ACCEPT]))
        await settle()
        assert (owner.timer, owner.runs, given.share.core.start) == (35.0, 1, 10)


async def test_end_notifies_its_owner_once(tmp_path):
    async with led(tmp_path) as given:
        share, owner, reader = given.share, given.owner, Reader()
        given.acquire(0, 9)
        share.readers[reader] = None
        given.hold()
        writing, waiting = given.acknowledge((0, 3, [ACCEPT])), given.acknowledge((4, 5, [ACCEPT]))
        await settle()
        owner.told.clear()
        share.end(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        assert share.error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [code_of(pending) for pending in (writing, waiting)] == [share.error.code] * 2
        assert reader.woken == 1
        assert owner.told == [("timer", None), ("ended", share.error.code), ("runs", 0)]
        assert not share.can_acquire
        await settle()
        given.states.open.set()
        await settle()
        assert given.states.written == []
        owner.told.clear()
        share.end_locks()
        given.harness.leader().replica.watchers.watermark_moved()
        assert (owner.told, reader.woken) == ([], 1)


async def test_partition_ended_during_load_has_no_state(tmp_path):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.hold()
        share = given.begin()
        await settle()
        share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        given.states.open.set()
        await settle()
        assert (share.core, given.owner.runs, given.owner.counts.load_times.count) == (None, 0, 0)


SHOWN = {
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.POLICY_VIOLATION: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_REQUEST: ErrorCode.UNKNOWN_SERVER_ERROR,
}
FATAL = {
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}


@pytest.mark.parametrize("code", SHOWN)
async def test_failed_write_returns_its_code(tmp_path, code):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        reader = Reader()
        given.share.readers[reader] = None
        given.states.failure = code
        pending = given.acknowledge((0, 9, [ACCEPT]))
        await settle()
        assert code_of(pending) is SHOWN[code]
        is_fatal = SHOWN[code] in FATAL
        assert (given.share.error is not None) is is_fatal
        assert reader.woken == (2 if is_fatal else 1)
        if not is_fatal:
            assert given.share.core.states() == [StateBatch(0, 9, DeliveryState.ACQUIRED, 1)]


@pytest.mark.parametrize("code", SHOWN)
async def test_failed_load_ends_the_share_partition(tmp_path, code):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.states.failure = code
        share = given.begin()
        await settle()
        assert share.error.code is SHOWN[code]
        assert given.owner.told[-1] == ("runs", 0)
        assert not share.can_acquire
        assert share.core is None


async def test_changes_wait_for_the_previous_write(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.acquire(10, 19, member="n")
        given.hold()
        first = given.acknowledge((0, 1, [RELEASE]))
        await settle()
        more = [
            given.acknowledge((4, 5, [ACCEPT])),
            given.acknowledge((12, 13, [REJECT]), member="n"),
            given.acknowledge((2, 3, [ACCEPT])),
        ]
        assert given.states.writing == 1
        assert not first.ready()
        given.states.open.set()
        await settle()
        assert given.states.written == [
            [(0, 1, 0, 1)],
            [(4, 5, 2, 1), (12, 13, 4, 1), (2, 3, 2, 1)],
        ]
        assert [pending.response for pending in (first, *more)] == [None] * 4
        assert given.states.writing_max == 1


@pytest.mark.parametrize(
    ("second", "writes"),
    [
        ((6, 7), 1),
        ((5, 7), 2),
        ((2, 7), 2),
        ((0, 2), 2),
        ((0, 1), 1),
        ((3, 4), 2),
        ((6, 7, 4, 5), 2),
        ((0, 1, 7, 7), 2),
        ((6, 6, 8, 8), 1),
    ],
)
async def test_write_has_one_state_per_record(tmp_path, second, writes):
    async with led(tmp_path) as given:
        share, core = given.share, given.share.core
        given.acquire(0, 9)
        given.hold()
        given.acknowledge((9, 9, [ACCEPT]))
        await settle()
        changes = [
            done(
                core.acknowledge(
                    "m", [Acknowledgement(2, 5, [RELEASE])], share.settings.rules, 0.0, id
                )
            )
        ]
        change = type(changes[0])(5)
        change.batches = [
            StateBatch(first, last, DeliveryState.ARCHIVED, 1)
            for first, last in zip(second[::2], second[1::2], strict=True)
        ]
        for each in (*changes, change):
            share._store(each)
        given.states.open.set()
        await settle()
        assert len(given.states.written) == 1 + writes


@pytest.mark.parametrize(("count", "writes"), [(599, 1), (600, 1), (601, 2)])
async def test_batches_of_one_write_are_limited(tmp_path, count, writes):
    async with led(tmp_path) as given:
        given.acquire(0, 2_000)
        given.hold()
        given.acknowledge((2_000, 2_000, [ACCEPT]))
        await settle()
        given.acknowledge((0, 399, [ACCEPT, REJECT] * 200))
        given.acknowledge((400, 399 + count, ([ACCEPT, REJECT] * 301)[:count]))
        given.states.open.set()
        await settle()
        assert len(given.states.written) == 1 + writes


async def test_change_beyond_the_limit_is_one_write(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 1_999)
        given.acknowledge((0, 1_999, [ACCEPT, REJECT] * 1_000))
        await settle()
        assert [len(written) for written in given.states.written] == [2_000]


async def test_ended_locks_are_counted_and_stored(tmp_path):
    async with led(tmp_path) as given:
        share, reader = given.share, Reader()
        given.acquire(0, 9)
        given.acquire(10, 14)
        share.readers[reader] = None
        given.owner.time = 29.0
        share.end_locks()
        assert (share.timed_out, reader.woken, given.owner.timer) == (0, 1, 30.0)
        given.owner.time = 30.0
        share.end_locks()
        assert (share.timed_out, reader.woken, given.owner.timer) == (15, 2, None)
        assert (given.owner.runs, share.core.next_fetch_offset()) == (2, 0)
        await settle()
        assert given.states.written_batches == [(0, 14, DeliveryState.AVAILABLE, 1)]
        assert reader.woken == 3


async def test_ended_locks_count_only_their_records(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.acknowledge((0, 3, [ACCEPT]), (6, 7, [ACCEPT]))
        await settle()
        given.owner.time = 30.0
        given.share.end_locks()
        assert given.share.timed_out == 4


async def test_release_affects_only_the_members_records(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.acquire(10, 19, member="n")
        given.release("n")
        await settle()
        assert given.states.written_batches == [(10, 19, DeliveryState.AVAILABLE, 1)]
        assert given.acquire(10, 19) == [(10, 19, 2)]


async def test_release_before_load_does_nothing(tmp_path):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.hold()
        share = given.begin()
        assert not share.can_acquire
        given.release()
        share.end_locks()
        with pytest.raises(KafkaError) as refused:
            given.acknowledge((0, 9, [ACCEPT]))
        assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
        reader = Reader()
        share.readers[reader] = None
        given.states.open.set()
        await settle()
        assert (share.can_acquire, reader.woken, given.states.written) == (True, 1, [])


async def test_acknowledgement_below_start_is_ignored(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.acknowledge((0, 4, [ACCEPT]))
        await settle()
        assert given.acknowledge((0, 4, [9]), (0, 3, [])).response is None
        with pytest.raises(KafkaError) as refused:
            given.acknowledge((0, 5, [9]))
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        assert len(given.states.written) == 1


async def test_full_broker_delivers_only_free_records(tmp_path):
    async with led(tmp_path) as given:
        share, owner = given.share, given.owner
        owner.is_full = True
        assert not share.can_acquire
        owner.is_full = False
        given.acquire(0, 9)
        owner.is_full = True
        assert not share.can_acquire
        assert given.acquire(10, 19) == []
        given.acknowledge((3, 4, [RELEASE]))
        await settle()
        assert share.can_acquire
        assert given.acquire(3, 9) == [(3, 4, 2)]
        assert given.acquire(10, 19) == []


async def test_retirement_waits_for_writes(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.hold()
        pending = given.acknowledge((0, 9, [ACCEPT]))
        await settle()
        given.share.retire()
        assert given.share.error is None
        given.states.open.set()
        await settle()
        assert pending.response is None
        assert given.share.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_retirement_waits_for_letters(tmp_path):
    async with led(tmp_path, dead_letters=True) as given:
        given.acquire(0, 9)
        given.owner.deliveries = trio.Event()
        given.acknowledge((0, 9, [REJECT]))
        await settle()
        given.share.retire()
        assert given.share.error is None
        given.owner.deliveries.set()
        await settle()
        assert given.states.written == [[(0, 9, 3, 1)], [(0, 9, 4, 1)]]
        assert given.share.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_retirement_waits_for_the_load(tmp_path):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.hold()
        share = given.begin()
        await settle()
        share.retire()
        assert share.error is None
        given.states.open.set()
        await settle()
        assert share.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(("reset", "start"), [("earliest", 0), ("latest", 100)])
async def test_new_group_begins_as_configured(tmp_path, reset, start):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.owner.sharing = given.owner.sharing._replace(offset_reset=reset)
        share = given.begin()
        await settle()
        assert (share.core.start, share.core.leader_epoch) == (start, share.leader.epoch)


async def test_new_records_wake_readers(tmp_path):
    async with led(tmp_path) as given:
        reader = Reader()
        given.share.readers[reader] = None
        append(given.harness, b"y")
        assert reader.woken == 0
        given.harness.flush()
        assert reader.woken == 1
        assert given.share.error is None


async def test_acknowledgement_after_end_changes_no_count(tmp_path):
    async with led(tmp_path) as given:
        share, owner = given.share, given.owner
        given.acquire(0, 9)
        deciding = share.acknowledge("m", [Acknowledgement(0, 4, [ACCEPT])])
        share.end(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        owner.told.clear()
        with pytest.raises(KafkaError):
            done(deciding)
        assert (owner.told, owner.runs) == ([], 0)


async def test_refused_acknowledgement_counts_split_runs(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        with pytest.raises(KafkaError):
            given.acknowledge((0, 4, [ACCEPT]), (0, 4, [ACCEPT]))
        assert given.owner.runs == given.share.core.run_count == 2


async def test_release_counts_split_runs(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.share.core.begin_at(5)
        given.release()
        assert given.owner.runs == given.share.core.run_count == 2


async def test_loading_share_partition_can_be_retired(tmp_path):
    async with trio.open_nursery() as nursery:
        given = Led(tmp_path, nursery)
        given.hold()
        share, reader = given.begin(), Reader()
        share.readers[reader] = None
        await settle()
        share.retire()
        assert share.make_way() is None
        assert share.error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        given.states.open.set()
        await settle()
        assert (share.core, reader.woken) == (None, 1)
        assert given.owner.told == [
            ("timer", None), ("ended", ErrorCode.NOT_LEADER_OR_FOLLOWER), ("runs", 0)
        ]  # fmt: skip


async def test_writing_share_partition_can_be_retired(tmp_path):
    async with led(tmp_path, dead_letters=True) as given:
        share, reader = given.share, Reader()
        given.acquire(0, 9)
        given.hold()
        writing = given.acknowledge((0, 3, [REJECT]))
        await settle()
        share.readers[reader] = None
        waiting = given.acknowledge((4, 5, [ACCEPT]))
        share.retire()
        assert share.make_way() is share
        assert (share.error.code, reader.woken) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
        given.states.open.set()
        await share.settle()
        assert (writing.response, waiting.response) == (None, None)
        assert given.states.written == [[(0, 3, 3, 1)], [(4, 5, 2, 1)]]
        await settle()
        assert given.owner.delivered == []
        assert given.owner.runs == 0


async def test_idle_share_partition_retires_at_once(tmp_path):
    async with led(tmp_path) as given:
        given.share.is_retiring = True
        assert given.share.make_way() is None


async def test_acknowledgement_across_the_start_counts(tmp_path):
    async with led(tmp_path) as given:
        given.acquire(0, 9)
        given.acknowledge((0, 4, [ACCEPT]))
        await settle()
        given.acknowledge((2, 5, [ACCEPT]))
        await settle()
        assert (given.share.core.start, given.states.written[-1]) == (6, [(5, 5, 2, 1)])


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, (ErrorCode.GROUP_ID_NOT_FOUND, "why")),
        (ErrorCode.NOT_COORDINATOR, (ErrorCode.COORDINATOR_NOT_AVAILABLE, "")),
    ],
)
async def test_message_is_returned_only_with_its_code(tmp_path, code, shown):
    async with led(tmp_path) as given:
        given.acquire(0, 9)

        async def write(*_arguments):
            raise KafkaError(code, "why")

        given.states.write = write
        pending = given.acknowledge((0, 9, [ACCEPT]))
        await settle()
        with pytest.raises(KafkaError) as refused:
            _ = pending.response
        own = KafkaError(*shown)
        assert (refused.value.code, refused.value.message) == (own.code, own.message)


async def test_release_after_retirement_stores_nothing(tmp_path):
    """The next share partition has read the state by then."""
    async with led(tmp_path, dead_letters=True, record_locks_max=2 * PIECE) as given:
        share, owner = given.share, given.owner
        for at in range(PIECE):
            given.acquire(at, at)
        given.acquire(PIECE, PIECE, member="n")
        owner.deliveries = trio.Event()
        given.acknowledge((PIECE, PIECE, [REJECT]), member="n")
        await settle()
        releasing = share.release("m", lambda: False)
        next(releasing)
        share.retire()
        following = LedShare(KEY, share.leader, owner, share.make_way())
        await settle()
        assert following.core is not None
        owner.told.clear()
        done(releasing)
        await settle()
        assert (given.states.written, owner.told) == ([[(PIECE, PIECE, 3, 1)]], [])

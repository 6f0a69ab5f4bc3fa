"""The memory limit of a broker's groups (G8), and members without a connection."""

from __future__ import annotations

from weakref import WeakSet

import pytest
import trio

from tests.broker.groups.driver import Driver
from tests.slow_steps import no_slow_steps
from trimaran.broker.groups import memory
from trimaran.broker.groups.classic import arrivals as arrivals_module
from trimaran.broker.groups.classic.arrivals import (
    ABANDONED_SECONDS,
    KEPT_PER_CONNECTION,
    Arrivals,
    is_arriving,
)
from trimaran.broker.groups.classic.group import ClassicGroup
from trimaran.broker.groups.consumer.group import ResolvedRegex, _regex_bytes
from trimaran.broker.groups.limits import NEW_MEMBER_JOIN_TIMEOUT_MS
from trimaran.broker.groups.memory import MEMBER_BYTES, GroupAccount
from trimaran.broker.groups.outputs import Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord
from trimaran.broker.groups.registry import KINDS
from trimaran.broker.groups.store import GroupStore, OffsetsRoom
from trimaran.node.replicated.state_machine import Producer
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from trimaran.wire.records.groups import OffsetCommitKey, OffsetCommitValue

E = ErrorCode
FULL = E.GROUP_MAX_SIZE_REACHED
A, B = "User:a", "User:b"


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Returns a driver whose groups may use 100,000 bytes, and a principal half of that."""
    monkeypatch.setattr(memory, "GROUPS_BYTES_MAX", 100_000)
    monkeypatch.setattr(memory, "PRINCIPAL_BYTES_MAX", 50_000)
    monkeypatch.setattr(memory, "OFFSET_METADATA_BYTES_MAX", 100)


@pytest.fixture
def driver():
    return Driver()


def joined(driver, token, *, size=1_000, **more):
    driver.join(token, protocols=[("p", bytes(size))], version=3, protocol_type="x", **more)
    answer = driver.answers.get(token)
    return None if answer is None else E(answer.error_code)


def many(driver, principal, **more):
    """Adds as many members of one principal as may join, each in a group of its own."""
    for number in range(1_000):
        token = f"{principal} {number} {len(driver.answers)}"
        if joined(driver, token, group=token, principal=principal, **more) is FULL:
            return number
    raise AssertionError("there is no end to it")


# -- an account


def test_account_is_limited_in_total_and_each():
    account = GroupAccount()
    account.change(("g", "loaded"), 45_000)
    assert account.member_fits(A, 50_000)
    assert not account.member_fits(A, 50_001)
    account.owned_by(("g", "b"), B)
    account.change(("g", "b"), 10_000)
    assert account.member_fits(A, 45_000)
    assert not account.member_fits(A, 45_001)
    assert account.member_fits(B, 40_000)
    assert not account.member_fits(B, 40_001)


def test_shrinking_member_always_fits():
    account = GroupAccount()
    account.change(("g", "m"), 200_000)
    account.offset_metadata_bytes = 200
    assert [account.member_fits(A, more) for more in (-1, 0, 1)] == [True, True, False]
    assert [account.metadata_fits(more) for more in (-1, 0, 1)] == [True, True, False]


def test_remaining_members_of_principal_still_count():
    account = GroupAccount()
    for member in "ab":
        account.owned_by(("g", member), A)
        account.change(("g", member), 10)
    account.gone(("g", "a"), 10)
    assert account.by_principal == {A: 10}
    account.gone(("g", "b"), 10)
    assert account.by_principal.keys() == set()


# -- classic members


def test_principal_may_use_half_all_the_whole(driver):
    one = MEMBER_BYTES + 1_000
    assert many(driver, A) == pytest.approx(50_000 // one, abs=1)
    assert many(driver, B) == pytest.approx(50_000 // one, abs=1)
    assert driver.shard.account.bytes <= 100_000
    assert many(driver, "User:c") <= 1
    driver.check_account()


def test_memory_of_departed_members_is_freed(driver):
    assert joined(driver, "a", size=45_000) is None
    assert joined(driver, "b", size=45_000, group="h") is FULL
    (member_id,) = driver.groups["g"].members
    driver.leave((member_id, None))
    assert driver.shard.account.bytes == 0
    assert not driver.shard.account.by_principal
    assert joined(driver, "c", size=45_000, group="h") is None


def test_member_growing_beyond_limit_is_removed(driver):
    driver.join("a", protocols=[("p", bytes(1_000))], version=3, protocol_type="x")
    driver.advance(3)
    member_id = driver.answers["a"].member_id
    driver.join("b", member_id, protocols=[("p", bytes(60_000))], version=3, protocol_type="x")
    assert driver.answers["b"].error_code == FULL
    assert driver.shard.account.bytes == 0


def test_unused_member_ids_count_too(driver):
    for number in range(1_000):
        token = str(number)
        driver.join(token, group=token, version=9)
        if driver.answers[token].error_code == FULL:
            break
    assert 10 < number < 100
    driver.advance(11)
    assert driver.shard.account.bytes == 0
    driver.check_account()


def test_oversized_assignment_is_refused_unstored(driver):
    driver.join("a", version=3)
    driver.advance(3)
    answer = driver.answers["a"]
    for size, code in ((60_000, FULL), (40_000, E.NONE)):
        plan = {answer.member_id: bytes(size)}
        driver.sync(f"sync {size}", answer.member_id, answer.generation_id, plan)
        assert driver.answers[f"sync {size}"].error_code == code
    assert driver.shard.account.bytes > 40_000
    driver.check_account()


def test_all_shards_of_a_broker_count_together():
    of_all = WeakSet()
    first, second = Driver(accounts=of_all), Driver(accounts=of_all)
    assert joined(first, "a", size=45_000) is None
    assert joined(second, "b", size=45_000) is FULL
    first.close()
    assert joined(second, "c", size=45_000) is None


def test_share_of_a_principal_counts_over_all_shards():
    of_all = WeakSet()
    first, second = GroupAccount(of_all), GroupAccount(of_all)
    for account in (first, second):
        account.owned_by(("g", "a"), A)
        account.change(("g", "a"), 20_000)
    assert first.member_fits(A, 10_000)
    assert not first.member_fits(A, 10_001)


def test_offset_refused_for_metadata_takes_no_room(monkeypatch):
    store = GroupStore(KINDS)
    cost = memory.group_bytes("g") + memory.topic_bytes("t") + memory.OFFSET_BYTES
    monkeypatch.setattr(memory, "KNOWN_BYTES_MAX", cost)
    room = OffsetsRoom(store, "g", 7)
    assert room.refusal(TopicPartition("t", 0), "m" * 101) is E.OFFSET_METADATA_TOO_LARGE
    assert room.refusal(TopicPartition("t", 1), "m") is E.NONE
    assert room.refusal(TopicPartition("t", 2), "m") is E.INVALID_COMMIT_OFFSET_SIZE


def test_loaded_groups_count_for_no_principal(driver):
    driver.join("a", version=3, protocols=[("p", bytes(45_000))], protocol_type="x")
    driver.advance(3)
    answer = driver.answers["a"]
    driver.sync("b", answer.member_id, answer.generation_id)
    loaded = Driver(log=driver.log)
    assert loaded.shard.account.bytes > 45_000
    assert not loaded.shard.account.by_principal
    assert joined(loaded, "c", size=45_000, group="h") is None
    assert joined(loaded, "d", size=45_000, group="i", principal=B) is FULL


def test_failed_load_takes_no_room():
    of_all = WeakSet()
    GroupAccount(of_all).change(("g", "m"), 90_000)
    assert GroupAccount(of_all).member_fits(A, 50_000)


# -- known groups and offsets


@pytest.fixture
def room(monkeypatch):
    """Returns a driver whose groups and offsets may use 100,000 bytes."""
    monkeypatch.setattr(memory, "KNOWN_BYTES_MAX", 100_000)


NO_ROOM = E.INVALID_COMMIT_OFFSET_SIZE
LONG = "g" * 30_000


def test_groups_that_commit_offsets_count_with_their_ids(driver, room):
    codes = [committed(driver, "", group=f"{LONG}{number}") for number in range(4)]
    assert codes == [E.NONE] * 3 + [NO_ROOM]
    assert committed(driver, "", group=f"{LONG}0") is E.NONE  # replaces the former offset
    driver.check_account()
    driver.submit(driver.shard.delete_groups([f"{LONG}0"]))
    driver.check_account()
    assert committed(driver, "", group=f"{LONG}4") is E.NONE
    driver.check_account()


def test_wide_characters_count_their_real_size(driver, room):
    assert committed(driver, "", group="😀" + "g" * 25_000) is NO_ROOM
    assert committed(driver, "", group="😀" + "g" * 20_000) is E.NONE


def test_offsets_of_group_are_bounded_independent_of_id(driver, room):
    for partition in range(1_000):
        if committed(driver, "", partition=partition) is not E.NONE:
            break
    assert 300 < partition < 400
    driver.check_account()
    driver.submit(
        driver.shard.delete_offsets("g", [TopicPartition("t", index) for index in range(partition)])
    )
    assert "g" in driver.shard.store.emptied
    driver.check_account()
    assert committed(driver, "", partition=partition) is E.NONE
    driver.check_account()


def test_pending_offsets_count_until_transaction_ends(driver, room):
    def commit(group, producer, partition=0):
        wanted = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=1, committed_metadata=""
        )
        topic = OffsetCommitRequestTopic(name="t", partitions=[wanted])
        request = OffsetCommitRequest(group_id=group, topics=[topic])
        result = driver.shard.commit_offsets(request, 6, driver.at, producer)
        for record in result.records:
            driver.shard.replay(len(driver.log), record, producer)
        return result.response.topics[0].partitions[0].error_code

    one, other = Producer(7, 0), Producer(8, 0)
    assert [commit(LONG, one, partition) for partition in range(4)] == [E.NONE] * 3 + [NO_ROOM]
    assert commit(LONG, one) is E.NONE
    assert commit(LONG, other) is NO_ROOM
    driver.shard.complete_transaction(one, False)
    assert driver.shard.account.pending_known_bytes == 0
    assert commit(LONG, other) is E.NONE
    driver.shard.complete_transaction(other, True)
    driver.check_account()
    assert driver.shard.account.known_bytes > len(LONG)


def test_overriding_offset_takes_room_of_pending_one(driver, room):
    result = driver.shard.commit_offsets(commit_of(0), 6, driver.at, Producer(7, 0))
    driver.shard.replay(0, result.records[0], Producer(7, 0))
    assert driver.shard.account.pending_known_bytes
    assert committed(driver, "") is E.NONE
    driver.shard.replay(1, GroupRecord(driver.log[0].key, driver.log[0].value))
    assert driver.shard.account.pending_known_bytes == 0


def test_oversized_new_classic_group_is_refused(driver, room):
    for number in range(4):
        driver.join(f"{number}", group=f"{LONG}{number}", version=3)
    assert list(driver.answers) == ["3"]
    assert driver.answers["3"].error_code == FULL
    driver.check_account()
    driver.join("again", group=f"{LONG}0", version=3, instance="i")
    assert "again" not in driver.answers
    driver.check_account()
    driver.advance(100)  # no member has returned
    driver.advance(2 * driver.limits.expiry_interval_ms / 1000)
    driver.check_account()
    assert driver.shard.account.known_bytes == 0


def test_oversized_consumer_group_is_refused(driver, room):
    for number in range(3):
        answer = driver.consumer_heartbeat("m", group=f"{LONG}{number}", topics=[])
        assert answer.error_code == E.NONE
    assert driver.consumer_heartbeat("m", group=f"{LONG}3", topics=[]) is FULL
    driver.check_account()
    driver.consumer_heartbeat("m", -1, group=f"{LONG}0")
    driver.submit(driver.shard.delete_groups([f"{LONG}0"]))
    driver.check_account()
    assert driver.consumer_heartbeat("m", group=f"{LONG}3", topics=[]).error_code == E.NONE


def test_loaded_state_counts_and_is_never_refused(driver, monkeypatch):
    for number in range(4):
        assert committed(driver, "", group=f"{LONG}{number}") is E.NONE
    monkeypatch.setattr(memory, "KNOWN_BYTES_MAX", 100_000)
    loaded = Driver(log=driver.log)
    loaded.check_account()
    assert loaded.shard.account.known_bytes == driver.shard.account.known_bytes > 120_000
    assert committed(loaded, "", group=f"{LONG}3") is E.NONE
    assert committed(loaded, "", group="h") is NO_ROOM


# -- members of the consumer protocol


def test_new_member_beyond_limit_is_refused(driver):
    names = ["t" * 249] * 1 + [f"{number:0249}" for number in range(150)]
    assert driver.consumer_heartbeat("a", topics=names).error_code == E.NONE
    assert driver.consumer_heartbeat("b", topics=names) is FULL
    assert driver.consumer_heartbeat("b", topics=names, principal=B).error_code == E.NONE
    assert driver.consumer_heartbeat("c", topics=names, principal="User:c") is FULL
    driver.check_account()
    driver.consumer_heartbeat("a", -1)
    assert driver.consumer_heartbeat("d", topics=names).error_code == E.NONE
    driver.check_account()


def test_oversized_subscription_is_refused_member_stays(driver):
    epoch = driver.consumer_heartbeat("a").member_epoch
    names = [f"{number:0249}" for number in range(250)]
    assert driver.consumer_heartbeat("a", epoch, topics=names) is FULL
    assert driver.consumer_heartbeat("a", epoch).error_code == E.NONE
    driver.check_account()


def test_partitions_and_pattern_matches_count(driver):
    before = driver.shard.account.bytes
    driver.topics.set("u", 100)
    driver.consumer_heartbeat("a", topics=["u"])
    assert driver.shard.account.bytes - before > 2 * 100 * memory.PARTITION_BYTES
    driver.consumer_heartbeat("b", regex="u|t", group="h")
    driver.check_account()


@pytest.mark.parametrize(("regex", "width"), [("u.*", 1), ("ü.*", 4)])
def test_pattern_counts_as_wide_as_its_widest_character(regex, width):
    resolved = ResolvedRegex(frozenset({"u", "ux"}), 0, 0)
    assert _regex_bytes(regex, resolved) == width * 3 + memory.NAME_BYTES * 2


def test_pending_metadata_does_not_replace_committed():
    """The committed offset and that of the open transaction both count until the marker is written."""
    store = GroupStore(KINDS)
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=1, metadata="m" * 60, commit_timestamp=0)
    store.replay(0, GroupRecord(key, value))
    assert OffsetsRoom(store, "g").refusal(TopicPartition("t", 0), "n" * 100) is E.NONE
    assert OffsetsRoom(store, "g", 7).refusal(TopicPartition("t", 0), "n" * 40) is E.NONE
    assert (
        OffsetsRoom(store, "g", 7).refusal(TopicPartition("t", 0), "n" * 41)
        is E.OFFSET_METADATA_TOO_LARGE
    )


def test_unwritten_member_counts_for_no_principal(driver):
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.consumer_heartbeat("a")
    assert not driver.shard.account._owners


def test_a_classic_member_of_a_consumer_group_counts(driver):
    driver.consumer_heartbeat("n")
    driver.join("a", version=3, principal=B)
    assert driver.shard.account.by_principal[B] > MEMBER_BYTES
    driver.check_account()


# -- metadata committed with offsets


def committed(driver, metadata, *, partition=0, group="g"):
    return driver.commit_offset(1, metadata=metadata, partition=partition, group=group)


def test_offset_metadata_is_bounded_over_all_groups(driver):
    assert committed(driver, "x" * 60) is E.NONE
    assert committed(driver, "x" * 60, group="h") is E.OFFSET_METADATA_TOO_LARGE
    assert committed(driver, "", group="h") is E.NONE
    assert committed(driver, "y" * 90) is E.NONE  # replaces the former offset
    assert committed(driver, "x" * 10, partition=1) is E.NONE
    assert committed(driver, "x", partition=2) is E.OFFSET_METADATA_TOO_LARGE
    driver.check_account()
    driver.submit(driver.shard.delete_offsets("g", [TopicPartition("t", 0)]))
    assert committed(driver, "x" * 60, group="h") is E.NONE
    driver.check_account()


def commit_of(*sizes):
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1, committed_metadata="x" * size
                    )
                    for index, size in enumerate(sizes)
                ],
            )
        ],
    )


def test_offsets_of_one_commit_count_together(driver):
    result = driver.shard.commit_offsets(commit_of(60, 60, 30), 9, driver.at)
    codes = [partition.error_code for partition in result.response.topics[0].partitions]
    assert codes == [E.NONE, E.OFFSET_METADATA_TOO_LARGE, E.NONE]
    assert len(result.records) == 2


@pytest.mark.parametrize("is_commit", [True, False])
def test_pending_metadata_counts_until_transactions_end(driver, is_commit):
    producer = Producer(7, 0)
    for _ in range(2):  # the second replaces the first
        result = driver.shard.commit_offsets(commit_of(80), 6, driver.at, Producer(7, 0))
        for record in result.records:
            driver.shard.replay(len(driver.log), record, producer)
    assert committed(driver, "x" * 30, partition=1) is E.OFFSET_METADATA_TOO_LARGE
    driver.shard.complete_transaction(producer, is_commit)
    assert committed(driver, "x" * 30, partition=1) is (
        E.OFFSET_METADATA_TOO_LARGE if is_commit else E.NONE
    )
    assert driver.shard.account.pending_metadata_bytes == 0


async def test_transaction_of_many_offsets_is_applied_in_steps(driver):
    """Kafka has no limit for the offsets of a transaction; the bytes of all groups are limited."""
    producer, count = Producer(7, 0), 30_000
    for index in range(count):
        key = OffsetCommitKey(group="g", topic="t", partition=index)
        value = OffsetCommitValue(offset=index, metadata="", commit_timestamp=0)
        driver.shard.replay(index, GroupRecord(key, value), producer)
    asked = OffsetFetchRequestGroup(
        group_id="g", topics=[OffsetFetchRequestTopics(name="t", partition_indexes=[0, count - 1])]
    )
    steps = 0
    with no_slow_steps():
        driver.shard.complete_transaction(producer, True)
        await trio.lowlevel.checkpoint()
        while driver.shard.store.is_completing("g"):
            assert driver.shard.deadline() <= driver.at.now
            with pytest.raises(KafkaError) as early:
                driver.shard.fetch_offsets(asked)
            assert early.value.code is E.COORDINATOR_LOAD_IN_PROGRESS
            assert driver.shard.fetch_offsets(asked.replace(group_id="other"))
            driver.shard.handle_timeout(driver.at)
            await trio.lowlevel.checkpoint()
            steps += 1
    assert steps > 10
    assert driver.shard.store.offset_count("g") == count
    (topic,) = driver.shard.fetch_offsets(asked).response.topics
    assert [partition.committed_offset for partition in topic.partitions] == [0, count - 1]
    driver.check_account()


async def test_shard_with_many_groups_ends_in_one_step(driver):
    """Most of the groups have no waiting request."""
    for number in range(20_000):
        driver.groups[f"g{number}"] = ClassicGroup(f"g{number}", 0)
    assert joined(driver, "a") is None
    with no_slow_steps(10_000):
        driver.shard.close(driver.at)
        answers = dict(driver.shard.take().responses)
    assert answers["a"].error_code == E.NOT_COORDINATOR


# -- members without a connection


def join_from(driver, token, connection, member_id="", version=9):
    driver.join(token, member_id, version=version, session_ms=1_800_000, connection=connection)
    answer = driver.answers.get(token)
    return None if answer is None else answer.member_id


def test_unused_id_ends_soon_after_its_connection(driver):
    join_from(driver, "a", 1)
    driver.classic.connection_closed(2, driver.at)
    driver.advance(ABANDONED_SECONDS)
    assert driver.groups["g"].pending
    driver.classic.connection_closed(1, driver.at)
    driver.advance(ABANDONED_SECONDS - 1)
    assert driver.groups["g"].pending
    driver.advance(1)
    assert "g" not in driver.groups
    driver.check_account()


def test_member_without_finished_join_ends_after_disconnect(driver):
    driver.join("other", version=3, session_ms=1_800_000)
    driver.advance(3)  # and it does not return for the rebalance
    join_from(driver, "a", 1, version=3)
    driver.classic.connection_closed(1, driver.at)
    driver.advance(ABANDONED_SECONDS)
    assert len(driver.groups["g"].members) == 1


def test_generation_after_disconnect_starts_no_session(driver):
    join_from(driver, "a", 1, version=3)
    driver.classic.connection_closed(1, driver.at)
    driver.advance(3)
    assert driver.answers["a"].error_code == E.NONE
    driver.advance(ABANDONED_SECONDS - 3)
    assert not driver.groups["g"].members


def test_reconnecting_member_gets_a_whole_session(driver):
    driver.join("other", version=3, session_ms=1_800_000)
    driver.advance(3)
    member_id = join_from(driver, "a", 1)
    join_from(driver, "b", 1, member_id)
    driver.classic.connection_closed(1, driver.at)
    join_from(driver, "c", 2, member_id)
    driver.leave((driver.answers["other"].member_id, None))
    assert driver.answers["c"].error_code == E.NONE
    session = TimerKey(Timer.SESSION, "g", member_id)
    assert driver.shard._timers._deadlines[session] == driver.now + 1_800
    driver.advance(ABANDONED_SECONDS + 1)
    assert member_id in driver.groups["g"].members


def test_member_returning_from_another_connection_stays(driver):
    member_id = join_from(driver, "a", 1)
    driver.join("other", version=3, session_ms=1_800_000)
    driver.advance(2)
    driver.classic.connection_closed(1, driver.at)
    driver.advance(ABANDONED_SECONDS / 2)
    join_from(driver, "b", 2, member_id)
    driver.classic.connection_closed(1, driver.at)
    driver.advance(ABANDONED_SECONDS)
    assert member_id in driver.groups["g"].members


def test_rejoining_new_member_keeps_join_timeout(driver):
    driver.join("other", version=3, session_ms=1_800_000)
    driver.advance(3)
    member_id = join_from(driver, "a", 1)
    join_from(driver, "b", 1, member_id)
    driver.classic.connection_closed(1, driver.at)
    join_from(driver, "c", 2, member_id)
    driver.advance(ABANDONED_SECONDS + 1)
    assert member_id in driver.groups["g"].members
    assert NEW_MEMBER_JOIN_TIMEOUT_MS > 1_000 * ABANDONED_SECONDS


def test_unsynced_member_ends_soon_after_disconnect(driver):
    join_from(driver, "a", 1, version=3)
    driver.advance(3)
    driver.classic.connection_closed(1, driver.at)
    driver.advance(ABANDONED_SECONDS)
    assert not driver.groups["g"].members


def test_synced_member_does_not_depend_on_connection(driver):
    join_from(driver, "a", 1, version=3)
    driver.advance(3)
    answer = driver.answers["a"]
    driver.sync("s", answer.member_id, answer.generation_id)
    driver.classic.connection_closed(1, driver.at)
    driver.advance(ABANDONED_SECONDS + 1)
    assert driver.groups["g"].members


def test_member_belongs_to_its_latest_connection():
    arrivals = Arrivals(lambda _member: True)
    for connection in (1, 1, 2):
        arrivals.note(("g", "m"), connection)
    assert arrivals.closed(1) == []
    assert arrivals.closed(2) == [("g", "m")]
    assert arrivals.closed(2) == []


def test_removed_group_has_no_arriving_members(driver):
    assert not is_arriving(driver.groups, ("g", "m"))
    join_from(driver, "a", 1)
    driver.groups.clear()
    driver.classic.connection_closed(1, driver.at)


def test_few_members_of_connection_are_all_remembered():
    awaited = set()
    arrivals = Arrivals(awaited.__contains__)
    for number in range(3):
        awaited.add(("g", str(number)))
        arrivals.note(("g", str(number)), 1)
        awaited.clear()
    assert len(arrivals._connection_of) == 3


def test_memory_of_a_connection_is_bounded():
    awaited = {("g", "0")}
    arrivals = Arrivals(awaited.__contains__)
    for number in range(3 * KEPT_PER_CONNECTION):
        awaited.add(("g", str(number)))
        arrivals.note(("g", str(number)), 1)
        awaited.intersection_update([("g", "0")])
    assert len(arrivals._connection_of) <= KEPT_PER_CONNECTION + 1
    assert arrivals.closed(1) == [("g", "0")]
    assert not arrivals._connection_of


def test_fewer_long_ids_are_remembered_per_connection():
    awaited = {("g", "0")}
    arrivals = Arrivals(awaited.__contains__)
    for number in range(200):
        awaited.add((LONG, str(number)))
        arrivals.note((LONG, str(number)), 1)
        awaited.intersection_update([("g", "0")])
    assert len(arrivals._connection_of) <= (1 << 20) // len(LONG) + 1
    arrivals.closed(1)
    assert not arrivals._noted_bytes


@pytest.mark.parametrize(("limit", "kept"), [(7, 3), (6, 1), (5, 1)])
def test_ids_of_connection_are_checked_at_bound(monkeypatch, limit, kept):
    """At the bound in bytes, only members that are about to join are kept."""
    monkeypatch.setattr(arrivals_module, "text_bytes", len)
    monkeypatch.setattr(arrivals_module, "KEPT_BYTES_PER_CONNECTION", limit)
    awaited = set()
    arrivals = Arrivals(awaited.__contains__)
    for number in range(3):
        awaited.clear()
        awaited.add(("g", str(number)))
        arrivals.note(("g", str(number)), 1)
    assert len(arrivals._connection_of) == kept


def test_sizes_include_names(monkeypatch):
    monkeypatch.setattr(memory, "text_bytes", len)
    assert memory.group_bytes("abc") == 1_024 + 3
    assert memory.topic_bytes("abcd") == 256 + 4


def stable_static(driver):
    """Returns a static member of A, alone in its group, that has synced."""
    driver.join("first", instance="i", principal=A)
    driver.advance(3)
    first = driver.answers["first"].member_id
    driver.sync("sync", first, 1, {first: b"x"}, instance="i")
    return driver.shard.account.by_principal[A]


def test_returning_static_member_counts_for_new_principal(driver):
    held = stable_static(driver)
    driver.join("again", instance="i", principal=B)
    assert driver.answers["again"].error_code == E.NONE
    assert +driver.shard.account.by_principal == {B: held}
    driver.check_account()


def test_unwritten_return_counts_for_previous_principal(driver):
    held = stable_static(driver)
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.join("again", instance="i", principal=B)
    assert driver.answers["again"].error_code == E.NOT_ENOUGH_REPLICAS
    assert +driver.shard.account.by_principal == {A: held}
    driver.check_account()


def test_members_without_written_record_count_for_nothing(driver):
    """A member retries with another id while replicas are missing."""
    driver.consumer_heartbeat("a")
    driver.failing = E.NOT_ENOUGH_REPLICAS
    driver.join("classic", version=3)
    assert driver.answers["classic"].error_code == E.NOT_ENOUGH_REPLICAS
    assert driver.consumer_heartbeat("", version=0) == E.NOT_ENOUGH_REPLICAS
    driver.check_account()


@pytest.mark.parametrize("change", ["pop", "setdefault", "update"])
def test_uncounted_change_of_groups_is_refused(change):
    groups = memory.ByGroup[int](GroupAccount())
    groups["g"] = 1
    with pytest.raises(TypeError, match="counted"):
        getattr(groups, change)({"g": 2})

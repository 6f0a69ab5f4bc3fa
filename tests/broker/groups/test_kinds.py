"""A kind of group that is added with one line in the table: its records, heartbeat, timer and tombstones."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import trio

from tests.broker.groups.driver import Driver
from tests.broker.groups.rig import open_rig
from tests.broker.groups.test_coordinator import code_of, commit_request
from trimaran.broker.coordination.timers import Instant
from trimaran.broker.groups.kinds import (
    CheckPartition,
    Due,
    GroupKind,
    HeartbeatGroups,
    ShardParts,
    all_may,
)
from trimaran.broker.groups.outputs import AwaitedWrite, Timer, TimerKey
from trimaran.broker.groups.records import GroupRecord, RecordType
from trimaran.broker.groups.registry import KINDS, serde_of
from trimaran.broker.groups.store import GroupStore
from trimaran.node.replicated.state_machine import Result
from trimaran.wire.codec.declarations import int32, string
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.list_groups import ListedGroup
from trimaran.wire.schema import Message, message

E = ErrorCode
SESSION_MS = 5_000


@message(key=1_001, versions="0")
class ToyMemberKey(Message):
    group: string
    member: string


@message(key=1_001, versions="0-1", flexible="1+")
class ToyMemberValue(Message):
    session_ms: int32


@dataclass(frozen=True)
class ToyHeartbeat:
    group: str
    member: str


class ToyGroups(HeartbeatGroups[ToyHeartbeat, str]):
    """A kind of group whose state is its members, each stored as one record."""

    def __init__(self, parts: ShardParts) -> None:
        self._parts = parts
        self._groups = parts.store.of("toy")
        self.failed: list[ToyHeartbeat] = []

    def has(self, group_id):
        return group_id in self._groups

    # -- members

    def member_heartbeat(self, given: ToyHeartbeat, at: Instant) -> Result[GroupRecord, str]:
        settings = self._parts.dependencies.settings.get("toy", lambda _group_id: SESSION_MS)
        session_ms = self._groups.get(given.group, {}).get(given.member)
        known = session_ms is not None
        session_ms = session_ms or settings(given.group)
        self._expect(given.group, given.member, session_ms, at)
        key = ToyMemberKey(group=given.group, member=given.member)
        record = GroupRecord(key, ToyMemberValue(session_ms=session_ms))
        return Result(() if known else (record,), "stays" if known else "joined")

    def heartbeat_failed(self, given, at):
        self.failed.append(given)

    def _expect(self, group, member, session_ms, at):
        self._parts.timers.set(TimerKey(Timer.SESSION, group, member), at.after_ms(session_ms))

    def expecting(self, at):
        for group, members in list(self._groups.items()):
            for member, session_ms in list(members.items()):
                self._expect(group, member, session_ms, at)
                yield None

    def timer_due(self, key, at):
        gone = GroupRecord(ToyMemberKey(group=key.group_id, member=key.member_id), None)
        self._parts.outputs.effects.writes.append(AwaitedWrite(records=[gone]))
        return Due.OTHER_GROUPS

    # -- offsets

    def check_commit(self, request, version, at) -> CheckPartition:
        raise KafkaError(E.GROUP_ID_NOT_FOUND)

    def check_transactional_commit(self, request, version) -> CheckPartition:
        return all_may

    def check_fetch(self, request):
        pass

    def check_offset_delete(self, group_id):
        pass

    def is_subscribed_to(self, group_id, topic):
        return False

    # -- life

    def listed(self, group_id):
        return ListedGroup(
            group_id=group_id, protocol_type="toy", group_state="Playing", group_type="toy"
        )

    def is_empty(self, group_id):
        return not self._groups.get(group_id)

    def tombstones(self, group_id) -> Iterator[GroupRecord]:
        return iter(())


def replay(store: GroupStore, record: GroupRecord) -> None:
    key, value = record
    groups = store.of("toy")
    if value is not None:
        store.emptied.take(key.group)
        groups[key.group] = {**groups.get(key.group, {}), key.member: value.session_ms}
    elif key.group in groups:
        groups[key.group].pop(key.member, None)
        if not groups[key.group]:
            del groups[key.group]


TOY = GroupKind(
    name="toy",
    records=(RecordType(ToyMemberKey, ToyMemberValue, version=1),),
    replay=replay,
    has_members=bool,
    make=ToyGroups,
    states=("Playing",),
)
WITH_TOY = (*KINDS, TOY)


@pytest.fixture
def driver():
    return Driver(kinds=WITH_TOY)


def beat(driver, member="m", group="g"):
    given = ToyHeartbeat(group, member)
    return driver.submit(driver.shard.of(TOY).member_heartbeat(given, driver.at))


# -- in a shard


def test_group_of_new_kind_lives_by_its_records(driver):
    assert [beat(driver), beat(driver), beat(driver, "n")] == ["joined", "stays", "joined"]
    assert driver.replayed().of("toy") == {"g": {"m": SESSION_MS, "n": SESSION_MS}}
    (listed,) = driver.shard.list_groups(driver.shard.group_ids(), (), ("toy",))
    assert (listed.group_id, listed.group_state) == ("g", "Playing")
    assert driver.shard.list_groups(driver.shard.group_ids(), (), ("classic", "consumer")) == []
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NON_EMPTY_GROUP}


def test_silent_members_expire_one_by_one(driver):
    beat(driver)
    driver.advance(3)
    beat(driver, "n")
    driver.advance(3)
    assert driver.replayed().of("toy") == {"g": {"n": SESSION_MS}}
    driver.advance(3)
    assert not driver.replayed().knows("g")
    assert list(driver.shard.group_ids()) == []


def test_loaded_members_have_a_whole_session(driver):
    beat(driver)
    driver.advance(4)
    after = Driver(kinds=WITH_TOY, log=driver.log, now=driver.now)
    after.advance(4.5)
    assert after.shard.store.of("toy") == {"g": {"m": SESSION_MS}}
    after.advance(1)
    assert after.shard.store.of("toy") == {}


def test_classic_members_may_not_join_other_kinds(driver):
    beat(driver)
    driver.join("join")
    assert driver.answers["join"].error_code == E.INCONSISTENT_GROUP_PROTOCOL
    driver.sync("sync", "c-1", 1)
    assert driver.answers["sync"].error_code == E.UNKNOWN_MEMBER_ID
    assert driver.heartbeat("c-1", 1) is E.UNKNOWN_MEMBER_ID
    with pytest.raises(KafkaError) as refused:
        driver.leave(("c-1", None))
    assert refused.value.code is E.UNKNOWN_MEMBER_ID
    (described, members) = driver.shard.kind_of("g").described("g", 6)
    assert (described.error_code, list(members)) == (E.GROUP_ID_NOT_FOUND, [])


def test_group_with_offsets_leaves_an_emptied_group(driver):
    driver.commit_offset(5)
    beat(driver)
    assert driver.shard.kind_of("g") is driver.shard.of(TOY)
    driver.advance(6)
    assert driver.shard.kind_of("g") is driver.classic
    assert driver.submit(driver.shard.delete_groups(["g"])) == {"g": E.NONE}
    assert not driver.replayed().knows("g")


# -- in a coordinator, over a log


async def test_group_of_new_kind_survives_fail_over(tmp_path, autojump_clock):
    async with open_rig(tmp_path, kinds=WITH_TOY) as rig:
        index, given = rig.index_of("g"), ToyHeartbeat("g", "m")
        rig.lead(index)
        await rig.loaded(index)
        assert await rig.groups.member_heartbeat(TOY, "g", given).wait() == "joined"
        rig.resign(index)
        with pytest.raises(KafkaError) as refused:
            rig.groups.member_heartbeat(TOY, "g", given)
        assert code_of(refused) is E.NOT_COORDINATOR
        rig.lead(index, 1)
        await rig.loaded(index)
        assert await rig.groups.member_heartbeat(TOY, "g", given).wait() == "stays"
        with pytest.raises(KafkaError) as refused:
            rig.groups.commit_offsets(commit_request(1), 9)
        assert code_of(refused) is E.GROUP_ID_NOT_FOUND
        store = rig.epoch(index).active().store
        await trio.sleep(SESSION_MS / 1000 - 1)
        assert store.knows("g")
        await trio.sleep(2)
        assert not store.knows("g")


async def test_kind_is_notified_of_unwritten_heartbeat(tmp_path):
    async with open_rig(tmp_path, kinds=WITH_TOY) as rig:
        index, given = rig.index_of("g"), ToyHeartbeat("g", "m")
        rig.lead(index).failing = E.NOT_ENOUGH_REPLICAS
        await rig.loaded(index)
        with pytest.raises(KafkaError):
            rig.groups.member_heartbeat(TOY, "g", given)
        assert rig.groups.groups_of(TOY, "g").failed == [given]


# -- records


def test_records_have_type_and_version_of_kind(driver):
    beat(driver)
    serde = serde_of(WITH_TOY)
    (record,) = driver.log
    written = serde.encode(record, 0)
    assert (written.key[:2], written.value[:2]) == ((1_001).to_bytes(2, "big"), b"\0\1")
    assert serde.decode(written.key, written.value) == record
    assert serde.decode(written.key, None) == GroupRecord(record.key, None)


def test_unknown_types_are_logged_once(driver, caplog):
    beat(driver)
    beat(driver, "n")
    written = [serde_of(WITH_TOY).encode(record, 0) for record in driver.log]
    serde = serde_of(KINDS)
    assert [serde.decode(record.key, record.value) for record in written] == [None, None]
    (line,) = caplog.messages
    assert "1001" in line


def test_record_of_no_kind_is_refused(driver):
    beat(driver)
    with pytest.raises(KeyError):
        GroupStore(KINDS).replay(0, driver.log[0])

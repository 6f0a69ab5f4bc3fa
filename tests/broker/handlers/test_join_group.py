from __future__ import annotations

from itertools import chain

import pytest
import trio

from tests.broker.groups.rig import open_rig
from trimaran.broker.groups.classic import joining
from trimaran.broker.groups.classic import kind as classic
from trimaran.broker.groups.classic.arrivals import ABANDONED_SECONDS
from trimaran.broker.groups.limits import MEMBER_BYTES_MAX, GroupLimits
from trimaran.broker.handlers.join_group import join_group
from trimaran.broker.handlers.sync_group import sync_group
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.sync_group import SyncGroupRequest

E = ErrorCode


def request(member_id="", **fields):
    values = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 60_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=b"me")],
    }
    return JoinGroupRequest(**values | fields)


@pytest.mark.parametrize("version", range(10))
async def test_every_version_joins(tmp_path, autojump_clock, version):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        answer = await rig.call(join_group, request(), version, client_id="me")
        if version >= 4:
            assert answer.error_code == E.MEMBER_ID_REQUIRED
            assert answer.protocol_name == (None if version >= 7 else "")
            answer = await rig.call(join_group, request(answer.member_id), version, client_id="me")
        assert answer.error_code == E.NONE
        assert answer.generation_id == 1
        assert answer.member_id.startswith("me-")
        assert answer.leader == answer.member_id
        assert answer.protocol_name == "range"
        assert answer.protocol_type == ("consumer" if version >= 7 else None)
        assert [(m.member_id, m.metadata) for m in answer.members] == [(answer.member_id, b"me")]
        [member] = rig.groups.describe_group("g", 6)[1]
        assert (member.client_id, member.client_host) == ("me", "/10.1.2.3")


LONGEST = 32_767


@pytest.mark.parametrize("version", [3, 5, 9])
@pytest.mark.parametrize("instance", [None, "i" * LONGEST], ids=["dynamic", "static"])
async def test_longest_names_are_accepted(tmp_path, autojump_clock, version, instance):
    """The derived member id is still sent to all members, and stored."""
    named = {} if instance is None or version < 5 else {"group_instance_id": instance}
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        client_id, member_id = "c" * LONGEST, ""
        if version >= 4 and not named:
            answer = await rig.call(join_group, request(), version, client_id=client_id)
            member_id = answer.member_id
        answer = await rig.call(
            join_group, request(member_id, **named), version, client_id=client_id
        )
        assert [m.member_id for m in answer.members] == [answer.member_id]
        sync = SyncGroupRequest(
            group_id="g", generation_id=1, member_id=answer.member_id, assignments=[], **named
        )
        synced = await rig.call(sync_group, sync, 3)
        assert synced.error_code == E.NONE


async def test_version_0_has_no_rebalance_timeout(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        await rig.call(join_group, request(), 0)
        (member,) = rig.epoch(index).active().of(classic.KIND).groups["g"].members.values()
        assert member.rebalance_timeout_ms == 10_000


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"group_id": ""}, E.INVALID_GROUP_ID),
        ({"session_timeout_ms": 1}, E.INVALID_SESSION_TIMEOUT),
        ({"member_id": "nobody"}, E.UNKNOWN_MEMBER_ID),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": []}, E.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
async def test_invalid_join_is_refused(tmp_path, fields, code):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        for version in (0, 5, 9):
            answer = await rig.call(join_group, request(**fields), version)
            assert answer.error_code == code
            assert answer.generation_id == -1
        assert [*chain.from_iterable(rig.groups.list_groups((), ()))] == []


async def test_other_broker_is_not_coordinator(tmp_path):
    async with open_rig(tmp_path) as rig:
        answer = await rig.call(join_group, request("m"), 9)
        assert (answer.error_code, answer.member_id) == (E.NOT_COORDINATOR, "m")


async def test_full_group_refuses_new_member(tmp_path, autojump_clock):
    async with open_rig(tmp_path, GroupLimits(members_max=1, partition_count=4)) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        await rig.call(join_group, request(), 3)
        answer = await rig.call(join_group, request(), 3)
        assert answer.error_code == E.GROUP_MAX_SIZE_REACHED


async def test_one_members_metadata_is_bounded(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        halves = [
            JoinGroupRequestProtocol(name=name, metadata=bytes(MEMBER_BYTES_MAX // 2))
            for name in ("range", "sticky")
        ]
        answer = await rig.call(join_group, request(protocols=halves), 3)
        assert answer.error_code == E.INVALID_REQUEST
        assert (await rig.call(join_group, request(protocols=halves[:1]), 3)).error_code == E.NONE


async def test_metadata_of_all_members_is_bounded(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr(joining, "GROUP_BYTES_MAX", 2 * len("range") + 3)
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)

        def saying(size, member_id=""):
            said = JoinGroupRequestProtocol(name="range", metadata=bytes(size))
            return request(member_id, protocols=[said])

        first = await rig.call(join_group, saying(3), 3)
        assert first.error_code == E.NONE
        answer = await rig.call(join_group, saying(1), 3)
        assert answer.error_code == E.GROUP_MAX_SIZE_REACHED
        again = await rig.call(join_group, saying(8, first.member_id), 3)
        assert again.error_code == E.NONE, "its earlier metadata does not count"
        answer = await rig.call(join_group, saying(9, first.member_id), 3)
        assert answer.error_code == E.GROUP_MAX_SIZE_REACHED
        assert (await rig.call(join_group, saying(8), 3)).error_code == E.NONE, "there is room"


@pytest.mark.parametrize("version", [3, 9])
async def test_waiting_member_does_not_long_outlive_its_connection(
    tmp_path, autojump_clock, version
):
    """Otherwise its session would last half an hour, and its metadata would stay in memory."""
    async with open_rig(
        tmp_path, GroupLimits(partition_count=4, initial_rebalance_delay_ms=60_000)
    ) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        asked = request(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
        rig.start(join_group, asked, version)
        shard = rig.epoch(index).active()
        assert "g" in shard.of(classic.KIND).groups
        assert shard.account.by_principal["User:ANONYMOUS"] == shard.account.bytes > 0
        rig._connection.mark_closed()
        await trio.sleep(ABANDONED_SECONDS - 1)
        assert shard.account.bytes > 0
        await trio.sleep(2)
        assert shard.account.bytes == 0
        assert not rig._connection._callbacks


async def test_many_joins_register_one_close_callback(tmp_path, autojump_clock):
    async with open_rig(tmp_path) as rig:
        index = rig.index_of("g")
        rig.lead(index)
        await rig.loaded(index)
        for _ in range(3):
            rig.start(join_group, request(), 9)
        assert len(rig._connection._callbacks) == 1

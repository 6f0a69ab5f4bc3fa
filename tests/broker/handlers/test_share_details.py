"""Details of requests of share groups: permissions, order and steps of checks, messages, and bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from tests.broker.calls import connection, started
from tests.broker.groups.rig import open_rig
from tests.broker.groups.share.states import StatesInMemory
from tests.broker.handlers.test_alter_share_group_offsets import alter
from tests.broker.handlers.test_delete_share_group_offsets import delete_offsets
from tests.broker.handlers.test_share_fetch import ChargedQuotas
from tests.broker.handlers.test_share_group_describe import described
from tests.broker.handlers.test_share_group_heartbeat import joining, served
from tests.broker.handlers.test_topic_access import authorizer
from tests.broker.sharing.rig import refusals, sharing_rig, shown
from tests.cluster.data_side import partition, registration, topic, topic_id
from trimaran.broker.handlers import share_acknowledgements
from trimaran.broker.handlers.share_acknowledge import leader_of
from trimaran.broker.handlers.share_acknowledgements import Acknowledger, _identified
from trimaran.broker.handlers.share_fetch import _check_renewal
from trimaran.broker.handlers.share_group_heartbeat import share_group_heartbeat
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicIdPartition
from trimaran.wire.messages import share_acknowledge as acknowledging
from trimaran.wire.messages import share_fetch as fetching
from trimaran.wire.messages.share_fetch import ShareFetchRequest
from trimaran.wire.security.acls import Operation

E = ErrorCode


def words(call, *arguments):
    with pytest.raises(KafkaError) as refused:
        call(*arguments)
    return refused.value.code, refused.value.message


async def begun(rig, size=3):
    """Begins the session of member m, and loads its share partition."""
    rig.states.open = trio.Event()
    await rig.fetched(0, 0)
    rig.states.open.set()
    await trio.testing.wait_all_tasks_blocked()
    rig.produce(size)


# -- rights


@pytest.mark.parametrize(
    ("right", "code"),
    [(Operation.READ, E.NONE), (Operation.DESCRIBE, E.TOPIC_AUTHORIZATION_FAILED)],
)
async def test_members_need_permission_to_read(tmp_path, right, code):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig)
        rig.context = replace(rig.context, authorizer=authorizer(right))
        fetched = shown(await rig.fetched(1))[0]
        assert (fetched[0], len(fetched[1])) == (code, 0 if code else 1)
        assert refusals(await rig.acknowledged(2, {0: []})) == {0: code}


@pytest.mark.parametrize(
    ("right", "code"),
    [(Operation.READ, E.NONE), (Operation.DESCRIBE, E.TOPIC_AUTHORIZATION_FAILED)],
)
async def test_offsets_need_permission_to_read(tmp_path, autojump_clock, right, code):
    async with open_rig(tmp_path, share_states=StatesInMemory()) as rig:
        served(rig)
        await rig.leading()
        await alter(rig, t={0: 5})
        rig.context.authorizer = authorizer(right)
        assert await alter(rig, t={0: 5}) == {"t": {0: code}}
        assert [one.error_code for one in await delete_offsets(rig, "t")] == [code]


# -- members


@pytest.mark.parametrize("member_id", ["m", "m" * 36])
def test_member_ids_of_a_uuid_are_accepted(member_id):
    assert _identified("", member_id) == ("", member_id)


@pytest.mark.parametrize(
    ("group_id", "member_id", "message"),
    [
        (None, "m", "Invalid group id in the request."),
        ("g", "m" * 37, "Invalid member id in the request."),
        ("g", "", "Invalid member id in the request."),
        ("g", None, "Invalid member id in the request."),
    ],
)
def test_refusal_of_invalid_id_has_its_reason(group_id, member_id, message):
    assert words(_identified, group_id, member_id) == (E.INVALID_REQUEST, message)


@pytest.mark.parametrize(("client_id", "kept"), [("c", "c"), (None, "")])
async def test_member_has_client_id_and_principal(tmp_path, autojump_clock, client_id, kept):
    async with open_rig(tmp_path) as rig:
        served(rig)
        await rig.leading()
        await rig.call(share_group_heartbeat, joining(), 1, client_id=client_id)
        [group] = await described(rig, "g")
        [member] = group.members
        assert (member.client_id, member.client_host) == (kept, "/10.1.2.3")
        shard = rig.epoch(rig.index_of("g")).active()
        assert list(shard.account.by_principal) == [str(connection().principal)]


# -- acknowledgements


def checked(*batches, may_renew=True, is_renewal=False):
    """Returns the pauses and the acknowledgements."""
    acknowledger = Acknowledger(
        None, "g", "m", None, may_renew=may_renew, is_renewal=is_renewal
    )  # fmt: skip
    work = acknowledger._checked(
        acknowledging.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=types
        )
        for first, last, types in batches
    )
    pauses = 0
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return pauses, [tuple(each) for each in stop.value]
        pauses += 1


ORDER, NUMBER = (
    "batches are not in order",
    "a batch needs one acknowledge type, or one for each offset",
)
UNKNOWN, UNSAID = "an acknowledge type does not exist", "renewals need a request that says so"


@pytest.mark.parametrize(
    ("batches", "terms", "message"),
    [
        ([(1, 0, [1])], {}, ORDER),
        ([(5, 6, [1]), (5, 7, [1])], {}, ORDER),
        ([(0, 2, [])], {}, NUMBER),
        ([(0, 2, [1, 1])], {}, NUMBER),
        ([(0, 2, [1, 1, 1, 1])], {}, NUMBER),
        ([(0, 1, [-1, 1])], {}, UNKNOWN),
        ([(0, 1, [1, 5])], {"is_renewal": True}, UNKNOWN),
        ([(0, 1, [1, 4])], {"may_renew": False}, UNKNOWN),
        ([(0, 1, [1, 4])], {"may_renew": False, "is_renewal": True}, UNKNOWN),
        ([(0, 1, [1, 4])], {}, UNSAID),
        ([(0, 0, [1]), (1, 1, [4])], {}, UNSAID),
    ],
)
def test_refusal_of_contradicting_batches_has_its_reason(batches, terms, message):
    with pytest.raises(KafkaError) as refused:
        checked(*batches, **terms)
    assert (refused.value.code, refused.value.message) == (E.INVALID_REQUEST, message)


def test_batches_in_order_are_kept():
    batches = [(0, 0, [0]), (0, 1, [1, 3]), (1, 1, [2]), (5, 7, [1])]
    assert checked(*batches) == (0, batches)
    assert checked((0, 1, [4, 1]), is_renewal=True) == (0, [(0, 1, [4, 1])])


@pytest.mark.parametrize(("count", "pauses"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2)])
def test_batches_are_checked_in_steps(monkeypatch, count, pauses):
    monkeypatch.setattr(share_acknowledgements, "BATCHES_A_STEP", 2)
    assert checked(*[(at, at, [1]) for at in range(count)])[0] == pauses


# -- fetches


@pytest.mark.parametrize("field", ["max_bytes", "min_bytes", "max_records", "max_wait_ms"])
def test_renewal_requests_nothing_else(field):
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    asked = {"group_id": "g", "member_id": "m", "share_session_epoch": 1, "batch_size": 0,
             "topics": [], "forgotten_topics_data": []}  # fmt: skip
    _check_renewal(ShareFetchRequest(**asked, **nothing, is_renew_ack=True))
    _check_renewal(ShareFetchRequest(**asked, **{**nothing, field: 1}, is_renew_ack=False))
    wrong = ShareFetchRequest(**asked, **{**nothing, field: 1}, is_renew_ack=True)
    first, *rest = field.split("_")
    name = first + "".join(map(str.title, rest))
    assert words(_check_renewal, wrong) == (
        E.INVALID_REQUEST, f"{name} must be set to 0, if isRenewAck is true."
    )  # fmt: skip


@pytest.mark.parametrize("wait_ms", [-1, 0, 1])
async def test_refusal_by_full_cache_respects_maximum_wait(tmp_path, autojump_clock, wait_ms):
    async with sharing_rig(tmp_path, sessions_max=1) as rig:
        await rig.fetched(0, 0)
        began = trio.current_time()
        with pytest.raises(KafkaError) as refused:
            await rig.fetched(0, 0, member_id="n", max_wait_ms=wait_ms)
        assert refused.value.code is E.SHARE_SESSION_LIMIT_REACHED
        assert trio.current_time() - began == pytest.approx(max(0, wait_ms) / 1_000)


async def test_minimum_above_the_maximum_does_not_wait(tmp_path, autojump_clock):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig)
        began = trio.current_time()
        response = await rig.fetched(1, min_bytes=1 << 20, max_bytes=50, max_wait_ms=9_000)
        assert shown(response) == {0: (0, [(0, 2, 1)], 0)}
        assert trio.current_time() == began


@pytest.mark.parametrize(("wait_ms", "expired"), [(-1, 0), (0, 0), (1, 1)])
async def test_shortest_wait_is_one_millisecond(tmp_path, autojump_clock, wait_ms, expired):
    async with sharing_rig(tmp_path) as rig:
        await rig.fetched(0, 0)
        await trio.testing.wait_all_tasks_blocked()
        await rig.fetched(1, max_wait_ms=wait_ms)
        assert rig.counts.expired == expired


@pytest.mark.parametrize(
    ("size", "parts"),
    [(0, [0, 1, 2]), (1, [0, 1, 2]), (2, [0, 2]), (3, [0])],
)
async def test_acquired_records_are_divided_by_batch_size(tmp_path, size, parts):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig, 1)
        rig.produce(1, 1)
        [(_, found, _)] = shown(await rig.fetched(1, batch_size=size)).values()
        assert [first for first, _, _ in found] == parts


@pytest.mark.parametrize("seconds", [0.001, 0.5, 2.0])
async def test_short_throttle_leaves_records_free(tmp_path, seconds):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig)
        quotas = ChargedQuotas()
        quotas.seconds = seconds
        rig.context = replace(rig.context, quotas=quotas)
        assert shown(await rig.fetched(1)) == {}
        assert rig.share().core.size == 0


# -- leaders elsewhere


async def test_new_leader_has_its_endpoint(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        await begun(rig)
        await rig.fetched(1)
        rig.states.open = trio.Event()
        moved = registration(12)
        endpoint = moved.listeners[0]
        listener = connection(endpoint.name)
        waiting = started(rig.acknowledge(2, {0: [(0, 0, [1])]}, on=listener))
        levels = rig.harness.metadata.image.features
        elsewhere = topic("t", partition(replicas=(11, 12), leader=12, leader_epoch=5))
        rig.harness.set_image(elsewhere, configs=rig.configs, brokers=(moved,))
        rig.harness.metadata.set(replace(rig.harness.metadata.image, features=levels))
        told = await waiting.finish()
        place = {"node_id": 12, "host": endpoint.host, "port": endpoint.port}
        assert refusals(told) == {0: E.NOT_LEADER_OR_FOLLOWER}
        assert told.node_endpoints == [acknowledging.NodeEndpoint(**place)]
        found = await rig.fetched(3, on=listener)
        assert found.node_endpoints == [fetching.NodeEndpoint(**place)]


async def test_deleted_topic_has_no_leader(tmp_path):
    async with sharing_rig(tmp_path) as rig:
        nobody = acknowledging.LeaderIdAndEpoch(leader_id=-1, leader_epoch=-1)
        for key in (TopicIdPartition(topic_id("u"), 0), TopicIdPartition(topic_id("t"), 7)):
            assert leader_of(key, rig.context) == nobody
        known = leader_of(TopicIdPartition(topic_id("t"), 0), rig.context)
        assert (known.leader_id, known.leader_epoch) == (11, 0)

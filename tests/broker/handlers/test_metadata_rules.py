"""Metadata: refusals as a whole, what is kept of an answer, brokers in order, and the room that an answer takes."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.broker.calls import call, connection, finished, through_wire
from tests.broker.rooms import NotedRoom, turns_of
from tests.cluster.data_side import (
    cluster_image,
    open_harness,
    partition,
    registration,
    topic,
    topic_id,
    topics_image,
)
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.handlers.metadata import _each_refused, _fail, metadata
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.serving import audit
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import RESPONSE_BYTES_MAX, ResponseTooLarge
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from trimaran.wire.security.principal import Principal
from trimaran.wire.transport.requests.calls import CloseConnection, DeferredResponse

E = ErrorCode
VERSION = 13


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, auto_create_topics_enable="false")
    see(harness, topic("t", partition()), topic("u", partition()))
    return harness


def see(harness, *topics, brokers=None):
    """The image alone; no log is made."""
    brokers = [registration(11)] if brokers is None else brokers
    harness.metadata.set(
        MetadataImage(topics=topics_image(*topics), cluster=cluster_image(*brokers))
    )


def named(*names, **fields):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


ALL = MetadataRequest(topics=None)


def begin(harness, message, *, version=VERSION, on=None, heavy=False):
    request = through_wire(message, version)
    asked = call(request, version, on)
    asked.heavy = heavy
    return metadata(request, harness.context, asked), asked


async def metadata_answer(harness, message, **options):
    answer = await finished(begin(harness, message, **options)[0])
    return through_wire(answer, options.get("version", VERSION))


def refused(name, code, an_id=NIL_UUID, *, is_internal=False):
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=an_id, is_internal=is_internal, partitions=[]
    )


def test_a_refusal_names_each_topic_and_the_whole():
    message = MetadataRequest(
        topics=[
            MetadataRequestTopic(name="t"),
            MetadataRequestTopic(name=None, topic_id=topic_id("u")),
            MetadataRequestTopic(name="__consumer_offsets"),
        ]
    )
    code = E.REQUEST_TIMED_OUT
    assert _fail(message, code, "") == MetadataResponse(
        brokers=[],
        topics=[
            refused("t", code),
            refused("", code, topic_id("u")),
            refused("__consumer_offsets", code, is_internal=True),
        ],
        error_code=code,
    )
    for nothing in (ALL, MetadataRequest(topics=[])):
        with pytest.raises(
            CloseConnection, match="Metadata of all topics failed: REQUEST_TIMED_OUT"
        ):
            _fail(nothing, code, "")


def test_deferred_answer_may_fail_for_each_topic(harness, tmp_path):
    creating = open_harness(tmp_path / "creating")
    see(creating)
    many = [topic("t", *(partition() for _ in range(501)))]
    see(harness, *many)
    for here, message, heavy in (
        (creating, named("new", allow_auto_topic_creation=True), False),
        (harness, named("t"), False),
        (harness, named("none"), True),
    ):
        later, _ = begin(here, message, heavy=heavy)
        assert isinstance(later, DeferredResponse)
        failed = later.on_error(E.REQUEST_TIMED_OUT, "")
        assert failed == _fail(message, E.REQUEST_TIMED_OUT, "")
    later, _ = begin(harness, ALL)
    with pytest.raises(CloseConnection):
        later.on_error(E.REQUEST_TIMED_OUT, "")


async def test_answer_is_cached_for_same_view(harness):
    first, _ = begin(harness, ALL)
    assert isinstance(first, DeferredResponse)
    expected = through_wire(await first.finish(), VERSION)
    assert {one.name for one in expected.topics} == {"t", "u"}
    again, _ = begin(harness, ALL, on=connection())
    assert through_wire(again, VERSION) == expected
    asking = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    for version, message in ((9, asking), (12, ALL)):
        later, _ = begin(harness, message, version=version)
        assert isinstance(later, DeferredResponse), "of other versions, and where verdicts are told"
    see(harness, topic("v", partition()))
    assert isinstance(begin(harness, ALL)[0], DeferredResponse)
    assert [one.name for one in (await metadata_answer(harness, ALL)).topics] == ["v"]


async def test_answers_with_operations_are_not_kept(harness):
    asking = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    await metadata_answer(harness, asking)
    assert isinstance(begin(harness, asking)[0], DeferredResponse)
    assert isinstance(begin(harness, ALL)[0], DeferredResponse)


def authorized(harness, *users):
    authorizer = Authorizer(users)
    authorizer.complete_initial_load()
    harness.context = replace(harness.context, authorizer=authorizer)
    return authorizer


def peer(name, host="127.0.0.1"):
    found = connection()
    found.principal, found.peer = Principal(name), (host, len(host))
    return found


async def test_cache_depends_on_principal_host_and_acls(harness):
    authorizer = authorized(harness, "User:amy", "User:bob")
    amy = peer("amy")
    assert len((await metadata_answer(harness, ALL, on=amy)).topics) == 2
    same_host = peer("amy")
    same_host.peer = (amy.peer[0], 77)
    assert not isinstance(begin(harness, ALL, on=same_host)[0], DeferredResponse)
    for other in (peer("bob"), peer("eve"), peer("amy", "10.0.0.1")):
        assert isinstance(begin(harness, ALL, on=other)[0], DeferredResponse)
    assert (await metadata_answer(harness, ALL, on=peer("eve"))).topics == []
    authorizer.epoch += 1
    assert isinstance(begin(harness, ALL, on=amy)[0], DeferredResponse)


class Changing(Authorizer):
    """ACLs change with each verdict."""

    def judge(self, *asked):
        verdict = super().judge(*asked)
        self.epoch += 1
        return verdict


async def test_answer_judged_during_acl_change_is_not_cached(harness):
    authorizer = Changing(["User:ANONYMOUS"])
    authorizer.complete_initial_load()
    harness.context = replace(harness.context, authorizer=authorizer)
    answer = await finished(begin(harness, ALL)[0])
    assert len(answer.topics) == 2
    (view,) = harness.context.topic_views._views.values()
    assert len(view.seen) == 0


async def test_nothing_is_cached_while_verdicts_are_logged(harness, caplog):
    authorized(harness, "User:ANONYMOUS")
    await metadata_answer(harness, ALL)
    assert not isinstance(begin(harness, ALL)[0], DeferredResponse)
    caplog.set_level(logging.DEBUG, audit.log.name)
    assert isinstance(begin(harness, ALL)[0], DeferredResponse)


async def test_brokers_are_sorted_and_controller_is_alive(harness):
    ids = [200, 3, 33, 12, 5]
    listed = cluster_image(*map(registration, ids)).brokers
    assert list(listed) != sorted(listed), "else the order is held by chance"
    brokers = [registration(one, one + 1, rack=f"r{one}") for one in ids]
    see(harness, brokers=brokers)
    answer = await metadata_answer(harness, named())
    assert [(one.node_id, one.host, one.port, one.rack) for one in answer.brokers] == [
        (one, "127.0.0.1", one + 1, f"r{one}") for one in sorted(ids)
    ]
    assert (answer.controller_id, answer.cluster_id) == (3, CLUSTER_ID)
    see(harness, brokers=[*brokers, registration(11)])
    assert (await metadata_answer(harness, named())).controller_id == 11
    see(harness, brokers=[*brokers, registration(11, fenced=True)])
    assert (await metadata_answer(harness, named())).controller_id == 3
    see(harness, brokers=[])
    assert (await metadata_answer(harness, named())).controller_id == -1


async def test_operations_of_200_topics_are_answered_at_once(harness):
    names = [f"none-{number}" for number in range(201)]
    for count, is_later in ((200, False), (201, True)):
        message = named(*names[:count], include_topic_authorized_operations=True)
        response, _ = begin(harness, message)
        assert isinstance(response, DeferredResponse) is is_later
        answer = through_wire(await finished(response), VERSION)
        assert len({one.topic_authorized_operations for one in answer.topics}) == 1
        assert answer.topics[-1].topic_authorized_operations > 0
    assert not isinstance(begin(harness, named(*names))[0], DeferredResponse)


async def test_loop_yields_while_topics_are_judged_or_encoded(harness):
    def see_many(count):
        see(harness, *(topic(f"t-{number}", partition()) for number in range(count)))

    async def turns(message):
        return await turns_of(begin(harness, message, on=connection())[0].finish())

    asking = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    counts = (200, 201, 400, 401)
    judged, both = [], []
    for count in counts:
        see_many(count)
        judged.append(await turns(ALL))
        both.append(await turns(asking))
    # One each two hundred topics, judged or told; one more where an answer is made in steps.
    assert judged == [1, 2, 2 + 1, 3 + 1]
    assert both == [1, 2 + 2 + 1, 2 + 2 + 1, 3 + 3 + 1]


async def test_large_answer_reserves_its_memory_first(harness):
    see(harness, *(topic(f"t-{one}", *(partition() for _ in range(500))) for one in range(6)))
    await metadata_answer(harness, ALL)
    later, asked = begin(harness, ALL)
    assert isinstance(later, DeferredResponse), "kept, and more than is given without asking"
    room = NotedRoom(asked)
    answer = await later.finish()
    assert (room.noted, room.size) == ([("pause", 0)], sum(map(len, answer.topics)))
    assert room.sizes == [room.size]


async def test_answer_without_room_refuses_each_topic(harness):
    names = ("t", "__consumer_offsets")
    see(harness, *(topic(name, *(partition() for _ in range(251))) for name in names))
    for message in (ALL, named(*names)):
        later, asked = begin(harness, message, version=12, heavy=True)
        room = NotedRoom(asked)
        room.size = RESPONSE_BYTES_MAX
        if message is not ALL:
            with pytest.raises(ResponseTooLarge):
                await later.finish()
            continue
        answer = through_wire(await later.finish(), 12)
        assert {one.name: one for one in answer.topics} == {
            name: refused(name, ResponseTooLarge().code, is_internal=name != "t").replace(
                topic_authorized_operations=-(1 << 31)
            )
            for name in names
        }
        assert [one.node_id for one in answer.brokers] == [11]


def test_ids_and_names_are_refused_one_by_one(harness):
    asked = call(ALL, VERSION)
    topics = [topic("t", partition()), refused("u", E.UNKNOWN_TOPIC_OR_PARTITION)]
    room = NotedRoom(asked)
    found = _each_refused(topics, ResponseTooLarge(), room)
    assert len(found) == 2
    assert room.size == sum(map(len, found))


@pytest.mark.parametrize("version", [10, 11])
async def test_known_names_suffice_for_all_topics(harness, version):
    assert len((await metadata_answer(harness, ALL, version=version)).topics) == 2

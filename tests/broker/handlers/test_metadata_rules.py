"""Metadata: refusals as a whole, cached parts of a response, the order of brokers, and the memory that a response
takes.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from tests.broker.calls import (
    call,
    carried_out,
    connection,
    finished,
    is_known_at_once,
    through_wire,
)
from tests.broker.rooms import NotedRoom
from tests.cluster.data_side import (
    cluster_image,
    open_harness,
    partition,
    registration,
    replaced,
    topic,
    topic_id,
    topics_image,
)
from tests.cluster.nodes import CLUSTER_ID
from trimaran.broker.handlers.metadata import _asker, _each_refused, _fail, metadata
from trimaran.broker.metadata.seen_topics import EVERYBODY, Asker
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.serving import audit
from trimaran.wire.buffers.primitives import NIL_UUID
from trimaran.wire.buffers.response_size import RESPONSE_BYTES_MAX, ResponseTooLarge
from trimaran.wire.errors import CloseConnection, ErrorCode
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from trimaran.wire.security.principal import Principal
from trimaran.wire.transport.memory.room import FREE_BYTES

E = ErrorCode
VERSION = 13


def test_clients_share_answers_unless_authorized():
    """An authorizer decides by principal and host."""
    asked = call(MetadataRequest(topics=None), VERSION)
    asked.connection.principal = Principal("User", "a")
    assert _asker(SimpleNamespace(authorizer=None), asked) == EVERYBODY
    own = Asker(Principal("User", "a"), asked.connection.peer[0])
    assert _asker(SimpleNamespace(authorizer=object()), asked) == own != EVERYBODY


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, auto_create_topics_enable="false")
    see(harness, topic("t", partition()), topic("u", partition()))
    return harness


def see(harness, *topics, brokers=None):
    """Sets only the image; no log is opened."""
    brokers = [registration(11)] if brokers is None else brokers
    harness.metadata.set(
        MetadataImage(topics=topics_image(*topics), cluster=cluster_image(*brokers))
    )


def named(*names, **fields):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **fields)


ALL = MetadataRequest(topics=None)


def begin(harness, message, *, version=VERSION, on=None):
    request = through_wire(message, version)
    asked = call(request, version, on)
    return metadata(request, harness.contexts.administration, asked), asked


async def metadata_answer(harness, message, **options):
    answer = await finished(begin(harness, message, **options)[0])
    return through_wire(answer, options.get("version", VERSION))


def refused(name, code, an_id=NIL_UUID, *, is_internal=False):
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=an_id, is_internal=is_internal, partitions=[]
    )


def test_refusal_names_each_topic_and_whole_response():
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


def is_kept(harness, message, **options):
    """Whether the answer comes from the cache: it then needs no pause."""
    return is_known_at_once(begin(harness, message, **options)[0])


async def test_answer_is_kept_for_same_view(harness):
    assert not is_kept(harness, ALL)
    expected = await metadata_answer(harness, ALL)
    assert {found.name for found in expected.topics} == {"t", "u"}
    assert is_kept(harness, ALL, on=connection())
    assert await metadata_answer(harness, ALL) == expected
    asking = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    assert not is_kept(harness, asking), "its operations are the client's own"
    assert not is_kept(harness, ALL, version=12)
    see(harness, topic("v", partition()))
    assert not is_kept(harness, ALL)
    assert [found.name for found in (await metadata_answer(harness, ALL)).topics] == ["v"]


async def test_answers_with_operations_are_not_kept(harness):
    asking = MetadataRequest(topics=None, include_topic_authorized_operations=True)
    await metadata_answer(harness, asking)
    assert not is_kept(harness, asking)
    assert not is_kept(harness, ALL)


def authorized(harness, *users):
    authorizer = Authorizer(users)
    authorizer.complete_initial_load()
    harness.contexts = replaced(harness.contexts, authorizer=authorizer)
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
    assert is_kept(harness, ALL, on=same_host)
    for other in (peer("bob"), peer("eve"), peer("amy", "10.0.0.1")):
        assert not is_kept(harness, ALL, on=other)
    assert (await metadata_answer(harness, ALL, on=peer("eve"))).topics == []
    authorizer.epoch += 1
    assert not is_kept(harness, ALL, on=amy)


class Changing(Authorizer):
    """ACLs that change with each verdict."""

    def judge(self, *asked):
        verdict = super().judge(*asked)
        self.epoch += 1
        return verdict


async def test_answer_judged_during_acl_change_is_not_cached(harness):
    authorizer = Changing(["User:ANONYMOUS"])
    authorizer.complete_initial_load()
    harness.contexts = replaced(harness.contexts, authorizer=authorizer)
    answer = await finished(begin(harness, ALL)[0])
    assert len(answer.topics) == 2
    (view,) = harness.contexts.administration.topic_views._views.values()
    assert len(view.seen) == 0


async def test_nothing_is_cached_while_verdicts_are_logged(harness, caplog):
    authorized(harness, "User:ANONYMOUS")
    await metadata_answer(harness, ALL)
    assert is_kept(harness, ALL)
    caplog.set_level(logging.DEBUG, audit.log.name)
    assert not is_kept(harness, ALL)


async def test_brokers_are_sorted_and_controller_is_alive(harness):
    ids = [200, 3, 33, 12, 5]
    listed = cluster_image(*map(registration, ids)).brokers
    assert list(listed) != sorted(listed), "else the order is held by chance"
    brokers = [registration(id_, id_ + 1, rack=f"r{id_}") for id_ in ids]
    see(harness, brokers=brokers)
    answer = await metadata_answer(harness, named())
    assert [
        (broker.node_id, broker.host, broker.port, broker.rack) for broker in answer.brokers
    ] == [(id_, "127.0.0.1", id_ + 1, f"r{id_}") for id_ in sorted(ids)]
    assert (answer.controller_id, answer.cluster_id) == (3, CLUSTER_ID)
    see(harness, brokers=[*brokers, registration(11)])
    assert (await metadata_answer(harness, named())).controller_id == 11
    see(harness, brokers=[*brokers, registration(11, fenced=True)])
    assert (await metadata_answer(harness, named())).controller_id == 3
    see(harness, brokers=[])
    assert (await metadata_answer(harness, named())).controller_id == -1


async def test_single_name_is_answered_at_once(harness):
    await metadata_answer(harness, named("t"))
    for message in (named("t"), named("none", include_topic_authorized_operations=True)):
        assert is_kept(harness, message)
    assert not is_kept(harness, named("t", "none"))


async def test_large_kept_answer_takes_its_room_first(harness):
    see(harness, *(topic(f"t-{index}", *(partition() for _ in range(500))) for index in range(6)))
    await metadata_answer(harness, ALL)
    steps, asked = begin(harness, ALL)
    room, effects = NotedRoom(asked), []
    answer = await carried_out(steps, effects)
    assert effects == [None]
    assert room.size == sum(map(len, answer.topics))


async def test_large_answer_takes_its_room_meanwhile(harness):
    see(harness, *(topic(f"t-{index}", *(partition() for _ in range(500))) for index in range(30)))
    steps, asked = begin(harness, ALL)
    room, sizes = NotedRoom(asked), set()
    answer = await carried_out(noting(steps, lambda: sizes.add(room.size)), [])
    size = sum(map(len, answer.topics))
    assert size - FREE_BYTES <= room.size <= size
    assert len(sizes) > 3


def noting(steps, note):
    """Runs the handler `steps`; calls `note` at each effect."""
    try:
        while True:
            effect = next(steps)
            note()
            yield effect
    except StopIteration as end:
        return end.value


async def test_answer_without_room_refuses_each_topic(harness):
    names = ("t", "__consumer_offsets")
    see(harness, *(topic(name, *(partition() for _ in range(2_000))) for name in names))
    for message in (ALL, named(*names)):
        steps, asked = begin(harness, message, version=12)
        room = NotedRoom(asked)
        room.size = RESPONSE_BYTES_MAX
        if message is not ALL:
            with pytest.raises(ResponseTooLarge):
                await finished(steps)
            continue
        answer = through_wire(await finished(steps), 12)
        assert {found.name: found for found in answer.topics} == {
            name: refused(name, ResponseTooLarge().code, is_internal=name != "t").replace(
                topic_authorized_operations=-(1 << 31)
            )
            for name in names
        }
        assert [broker.node_id for broker in answer.brokers] == [11]


async def test_ids_and_names_are_refused_one_by_one(harness):
    asked = call(ALL, VERSION)
    topics = [topic("t", partition()), refused("u", E.UNKNOWN_TOPIC_OR_PARTITION)]
    room = NotedRoom(asked)
    found = await finished(_each_refused(topics, ResponseTooLarge(), room))
    assert len(found) == 2
    assert room.size == sum(map(len, found))


@pytest.mark.parametrize("version", [10, 11])
async def test_known_names_suffice_for_all_topics(harness, version):
    assert len((await metadata_answer(harness, ALL, version=version)).topics) == 2

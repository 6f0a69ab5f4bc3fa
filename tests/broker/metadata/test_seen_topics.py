"""A repeated request for all topics gets the cached response until the topics or the permissions change."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from tests.broker.calls import call, connection, finished, is_known_at_once, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.metadata import metadata
from trimaran.broker.metadata.seen_topics import KEPT_MAX, Asker, SeenTopics
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import TopicsImage
from trimaran.wire.codec.declarations import EncodedArray
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType
from trimaran.wire.security.principal import Principal

VERSION = 12
BROKERS = (registration(11),)


class Judged(Authorizer):
    """An authorizer that counts its calls."""

    count = 0

    def judge(self, principal, host, action):
        self.count += 1
        return super().judge(principal, host, action)

    def allow(self, name, topic_name):
        acl = Acl(
            *(ResourceType.TOPIC, topic_name, PatternType.LITERAL, f"User:{name}", "*"),
            *(Operation.DESCRIBE, Permission.ALLOW),
        )
        self._index.add(acl)
        self.epoch += 1
        self._kept.clear()


@pytest.fixture
def authorizer():
    made = Judged()
    made.complete_initial_load()
    made.allow("alice", "a")
    made.allow("bob", "b")
    return made


@pytest.fixture
def harness(tmp_path, authorizer):
    harness = open_harness(tmp_path, auto_create_topics_enable="false")
    harness.partitions.apply_topic = lambda *_: None
    harness.set_image(topic("a", partition()), topic("b", partition()), brokers=BROKERS)
    return harness


def start(harness, authorizer, name, **fields):
    request = through_wire(MetadataRequest(topics=None, **fields), VERSION)
    on = connection()
    on.principal = Principal(name)
    return metadata(
        request,
        replace(harness.contexts.administration, authorizer=authorizer),
        call(request, VERSION, on),
    )


async def names(harness, authorizer, name, **fields):
    answer = await finished(start(harness, authorizer, name, **fields))
    return sorted(topic.name for topic in through_wire(answer, VERSION).topics)


async def test_each_client_is_authorized_once_per_topic(harness, authorizer):
    for _ in range(3):
        assert await names(harness, authorizer, "alice") == ["a"]
        assert await names(harness, authorizer, "bob") == ["b"]
    assert authorizer.count == 4
    assert is_known_at_once(start(harness, authorizer, "alice"))
    assert not is_known_at_once(start(harness, authorizer, "carol"))


async def test_everything_is_visible_without_authorizer(harness):
    for name in ("alice", "alice", "bob"):
        assert await names(harness, None, name) == ["a", "b"]
    assert is_known_at_once(start(harness, None, "carol")), "all see the same"


async def test_changed_acl_applies_at_once(harness, authorizer):
    assert await names(harness, authorizer, "alice") == ["a"]
    authorizer.allow("alice", "b")
    assert await names(harness, authorizer, "alice") == ["a", "b"]


async def test_acl_change_during_authorization_is_not_missed(harness, authorizer):
    judging = start(harness, authorizer, "alice")
    judge = authorizer.judge

    def judge_and_change(*asked):
        found = judge(*asked)
        if authorizer.judge is judge_and_change:
            authorizer.judge = judge
            authorizer.allow("alice", "b")
        return found

    authorizer.judge = judge_and_change
    await finished(judging)
    assert await names(harness, authorizer, "alice") == ["a", "b"]


async def test_created_and_deleted_topics_are_seen_at_once(harness, authorizer):
    assert await names(harness, authorizer, "alice") == ["a"]
    harness.set_image(topic("b", partition()), brokers=None)
    assert await names(harness, authorizer, "alice") == []
    harness.set_image(topic("a", partition()), brokers=None)
    assert await names(harness, authorizer, "alice") == ["a"]


async def test_departed_broker_is_seen_at_once(harness, authorizer):
    await names(harness, authorizer, "alice")
    harness.set_image(topic("a", partition()), brokers=(registration(11, fenced=True),))
    answer = through_wire(await finished(start(harness, authorizer, "alice")), VERSION)
    [found] = answer.topics[0].partitions
    assert found.leader_id == -1


async def test_every_authorization_is_logged_at_debug_level(harness, authorizer, caplog):
    await names(harness, authorizer, "alice")
    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
        for _ in range(2):
            await names(harness, authorizer, "alice")
    assert len(caplog.records) == 4


async def test_requested_operations_are_returned(harness, authorizer):
    for wanted in (False, True, False):
        told = {"include_topic_authorized_operations": wanted}
        answer = through_wire(await finished(start(harness, authorizer, "alice", **told)), VERSION)
        [found] = answer.topics
        assert (found.topic_authorized_operations >= 0) == wanted


def test_cache_evicts_the_oldest_response():
    seen, topics = SeenTopics(), TopicsImage()
    askers = [Asker(Principal(str(number)), "::1") for number in range(KEPT_MAX + 1)]
    for asker in askers:
        seen.keep(asker, topics, 1, EncodedArray())
    assert len(seen) == KEPT_MAX
    assert seen.find(askers[0], topics, 1) is None
    assert seen.find(askers[-1], topics, 1) is not None
    assert seen.find(askers[-1], topics, 2) is None
    assert seen.find(askers[-1], TopicsImage(), 1) is None

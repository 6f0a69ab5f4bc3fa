"""Topics in Metadata responses are encoded only once, a few at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

import trimaran.broker.metadata.topic_views
from tests.broker.calls import call, connection, finished, through_wire
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.handlers.metadata import metadata
from trimaran.broker.metadata.topic_views import VIEWS_MAX
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from trimaran.wire.security.acls import NOT_ASKED, Operation, ResourceType
from trimaran.wire.security.principal import Principal

VERSION = 12
BROKERS = (registration(11), registration(12), registration(13))
LARGE = topic("large", *[partition((11, 12, 13))] * 1_500)
SMALL = [topic(f"small-{number}", *[partition((11, 12))] * 3) for number in range(20)]


class Encodings(trio.abc.Instrument):
    """Counts encoded topics, in total and in the longest step."""

    def __init__(self, monkeypatch):
        self._encode = trimaran.broker.metadata.topic_views.encode_element
        self.topics = self.partitions = 0
        self.in_step = self.in_longest_step = 0
        monkeypatch.setattr(trimaran.broker.metadata.topic_views, "encode_element", self)

    def __call__(self, value, of, version):
        self.topics += isinstance(value, MetadataResponseTopic)
        self.partitions += isinstance(value, MetadataResponsePartition)
        self.in_step += isinstance(value, MetadataResponsePartition)
        self.in_longest_step = max(self.in_longest_step, self.in_step)
        return self._encode(value, of, version)

    def before_task_step(self, task):
        self.in_step = 0

    def taken(self):
        counts = self.topics, self.partitions
        self.topics = self.partitions = 0
        return counts


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, auto_create_topics_enable="false")
    set_topics(harness, LARGE, *SMALL)
    return harness


@pytest.fixture
def encodings(monkeypatch):
    return Encodings(monkeypatch)


def set_topics(harness, *topics, brokers=BROKERS):
    """Sets topics that other brokers lead, so that no log is opened."""
    harness.partitions.apply_topic = lambda *_: None
    harness.set_image(*topics, brokers=brokers)


async def ask(harness, version=VERSION, listener="PLAINTEXT"):
    request = through_wire(MetadataRequest(topics=None), version)
    asked = call(request, version, connection(listener))
    return through_wire(
        await finished(metadata(request, harness.contexts.administration, asked)), version
    )


async def test_repeated_request_costs_no_encoding(harness, encodings):
    first = await ask(harness)
    assert encodings.taken() == (21, len(LARGE.partitions) + 60)
    assert await ask(harness) == first
    assert encodings.taken() == (0, 0)


async def test_only_the_changed_topic_is_encoded_again(harness, encodings):
    await ask(harness)
    encodings.taken()
    changed = topic("small-0", partition((11, 12), leader=12, leader_epoch=4))
    set_topics(harness, LARGE, changed, *SMALL[1:], brokers=None)
    answer = await ask(harness)
    assert encodings.taken() == (1, 1)
    [found] = [topic for topic in answer.topics if topic.name == "small-0"]
    assert [(partition.leader_id, partition.leader_epoch) for partition in found.partitions] == [
        (12, 4)
    ]


async def test_all_topics_are_encoded_again_without_broker(harness, encodings):
    await ask(harness)
    encodings.taken()
    set_topics(harness, *SMALL, brokers=(BROKERS[0], registration(12, fenced=True)))
    answer = await ask(harness)
    assert encodings.taken() == (20, 60)
    assert {tuple(p.offline_replicas) for topic in answer.topics for p in topic.partitions} == {
        (12,)
    }


async def test_request_may_pause_after_each_partition(harness, encodings):
    trio.lowlevel.add_instrument(encodings)
    await ask(harness)
    assert encodings.in_longest_step == 1


async def test_abandoned_request_leaves_work_to_other_requests(harness, encodings):
    request = through_wire(MetadataRequest(topics=None), VERSION)
    steps = metadata(request, harness.contexts.administration, call(request, VERSION))
    for _ in range(700):
        next(steps)
    steps.close()
    await ask(harness)
    assert encodings.taken() == (21, len(LARGE.partitions) + 60)


async def test_simultaneous_requests_share_one_encoding(harness, encodings):
    answers = []

    async def asker():
        answers.append(await ask(harness))

    async with trio.open_nursery() as nursery:
        for _ in range(30):
            nursery.start_soon(asker)
    assert len(answers) == 30
    assert encodings.taken() == (21, len(LARGE.partitions) + 60)


async def test_versions_and_listeners_have_few_cached_views(harness, encodings):
    set_topics(harness, *SMALL)
    for version in range(1, VIEWS_MAX + 2):
        await ask(harness, version)
    assert encodings.taken() == (20 * (VIEWS_MAX + 1), 60 * (VIEWS_MAX + 1))
    await ask(harness, VIEWS_MAX + 1)
    assert encodings.taken() == (0, 0)
    await ask(harness, 1)
    assert encodings.taken() == (20, 60)
    elsewhere = await ask(harness, 1, "OTHER")
    assert {p.leader_id for topic in elsewhere.topics for p in topic.partitions} == {-1}


async def test_cached_views_of_deleted_topics_are_removed(harness, encodings):
    for number in range(600):
        set_topics(
            harness, *[topic(f"t-{number}-{each_number}") for each_number in range(5)], brokers=None
        )
        await ask(harness)
    [view] = harness.contexts.administration.topic_views._views.values()
    assert len(view) < 1100


def of_topics(answer):
    return {topic.topic_authorized_operations for topic in answer.topics}


@pytest.mark.parametrize("version", [8, 9, 12, 13])
async def test_authorized_operations_are_not_shared(harness, encodings, version):
    """All clients get the same bytes, except for their authorized operations."""
    authorizer = Authorizer(["User:admin"])
    # Only operations that imply DESCRIBE.
    for operation in (Operation.READ, Operation.ALTER_CONFIGS):
        anything = Acl(ResourceType.TOPIC, "*", 3, "User:bob", "*", operation, 3)
        authorizer._index.add(anything)
    authorizer.complete_initial_load()
    context = replace(harness.contexts.administration, authorizer=authorizer)
    request = MetadataRequest(topics=None, include_topic_authorized_operations=True)

    async def asked_by(name, asked=request):
        who = connection()
        who.principal = Principal(name)
        asked = through_wire(asked, version)
        return through_wire(
            await finished(metadata(asked, context, call(asked, version, who))), version
        )

    def codes(*operations):
        return {sum(1 << operation for operation in operations)}

    of_all = (*range(Operation.READ, Operation.CLUSTER_ACTION), Operation.DESCRIBE_CONFIGS)
    assert of_topics(await asked_by("admin")) == codes(*of_all, Operation.ALTER_CONFIGS)
    encodings.taken()
    of_bob = (Operation.READ, Operation.DESCRIBE)
    of_bob += (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    assert of_topics(await asked_by("bob")) == codes(*of_bob)
    assert of_topics(await asked_by("bob", MetadataRequest(topics=None))) == {NOT_ASKED}
    assert of_topics(await asked_by("admin")) == codes(*of_all, Operation.ALTER_CONFIGS)
    assert encodings.taken() == (0, 0)

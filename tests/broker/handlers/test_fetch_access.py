"""Unauthorized clients fetch nothing of a topic: in sessions, by topic id, and after waits in which ACLs changed."""

import pytest
import trio
import trio.testing

from tests.broker.batches import append
from tests.broker.calls import call, connection, finished, through_wire
from tests.cluster.data_side import open_harness, partition, registration, replaced, topic, topic_id
from tests.quorum.metadata.build import SOMEWHERE, replay, uid
from trimaran.broker.handlers.fetch import fetch
from trimaran.broker.handlers.metadata import metadata
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import EMPTY
from trimaran.quorum.metadata.loader import Manifest
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from trimaran.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from trimaran.wire.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
E = ErrorCode


class Acls:
    """An authorizer, and ACLs that change as if the controller had committed them."""

    def __init__(self):
        self.authorizer = Authorizer()
        self.authorizer.complete_initial_load()
        self._image = EMPTY

    def allow(self, number, name, operation=Operation.READ, kind=ResourceType.TOPIC):
        acl = Acl(kind, name, PatternType.LITERAL, "User:*", "*", operation, Permission.ALLOW)
        fields = acl._asdict()
        fields["permission_type"] = fields.pop("permission")
        self._publish(AccessControlEntryRecord(id=uid(number), **fields))

    def revoke(self, number):
        self._publish(RemoveAccessControlEntryRecord(id=uid(number)))

    def _publish(self, record):
        delta = replay([record], self._image)
        self.authorizer.publish(delta, self._image, Manifest(SOMEWHERE))
        self._image = delta.apply(SOMEWHERE)


@pytest.fixture
def acls():
    return Acls()


@pytest.fixture
def harness(tmp_path, acls):
    harness = open_harness(tmp_path)
    harness.set_image(topic("t", partition()), topic("secret", partition()))
    harness.contexts = replaced(harness.contexts, authorizer=acls.authorizer)
    for name in ("t", "secret"):
        append(harness, b"a", name=name)
    harness.flush()
    return harness


def request(*names, version=17, max_wait_ms=0, min_bytes=1, **session):
    key = "topic_id" if version >= 13 else "topic"
    wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    topics = [
        FetchTopic(**{key: topic_id(name) if version >= 13 else name}, partitions=wanted)
        for name in names
    ]
    session = {"session_epoch": -1, **session}
    message = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, topics=topics, **session)
    return through_wire(message, version)


async def fetch_codes(harness, message, version=17, client=None):
    answer = await finished(fetch(message, harness.contexts.data, call(message, version, client)))
    found = {
        (response.topic or response.topic_id): E.of(response.partitions[0].error_code)
        for response in answer.responses
    }
    return answer, found


@pytest.mark.parametrize("version", [4, 12])
async def test_unauthorized_and_missing_names_look_alike(harness, acls, version):
    acls.allow(1, "t")
    _, found = await fetch_codes(harness, request("t", "secret", "none", version=version), version)
    assert found == {"t": E.NONE, "secret": REFUSED, "none": REFUSED}


async def test_unauthorized_topic_id_is_refused(harness, acls):
    acls.allow(1, "t")
    _, found = await fetch_codes(harness, request("t", "secret", "none"))
    expected = {"t": E.NONE, "secret": REFUSED, "none": E.UNKNOWN_TOPIC_ID}
    assert found == {topic_id(name): code for name, code in expected.items()}


async def test_session_is_authorized_again_when_acls_change(harness, acls):
    """This includes partitions that have no new records."""
    acls.allow(1, "t")
    client = connection()
    answer, found = await fetch_codes(harness, request("t", session_epoch=0), client=client)
    assert found == {topic_id("t"): E.NONE}
    session = {"session_id": answer.session_id}
    # The reader has all records: no partition needs a read.
    reader = harness.contexts.data.fetch_sessions._sessions[answer.session_id].reader
    reader.changed.clear()
    _, found = await fetch_codes(harness, request(session_epoch=1, **session), client=client)
    assert found == {}
    acls.revoke(1)
    _, found = await fetch_codes(harness, request(session_epoch=2, **session), client=client)
    assert found == {topic_id("t"): REFUSED}
    _, found = await fetch_codes(harness, request(session_epoch=3, **session), client=client)
    assert found == {topic_id("t"): REFUSED}
    acls.allow(1, "t")
    _, found = await fetch_codes(harness, request(session_epoch=4, **session), client=client)
    assert found == {topic_id("t"): E.NONE}


async def test_waiting_fetch_is_authorized_again(harness, acls, autojump_clock):
    """Records found before the change are not returned either."""
    acls.allow(1, "t")
    message = request("t", max_wait_ms=5000, min_bytes=1 << 20)
    results = []

    async def ask():
        results.append((await fetch_codes(harness, message))[1])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        acls.revoke(1)
        append(harness, b"b")
        harness.flush()
    assert results == [{topic_id("t"): REFUSED}]


async def listed(harness, version, *names, create=False, **fields):
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    if version >= 4:
        fields["allow_auto_topic_creation"] = create
    message = through_wire(MetadataRequest(topics=topics, **fields), version)
    answer = await finished(
        metadata(message, harness.contexts.administration, call(message, version))
    )
    answer = through_wire(answer, version)
    return {topic.name or topic.topic_id: E.of(topic.error_code) for topic in answer.topics}


@pytest.mark.parametrize("version", [1, 9, 13])
async def test_metadata_omits_invisible_topics(harness, acls, version):
    acls.allow(1, "t")
    assert await listed(harness, version) == {"t": E.NONE}
    found = await listed(harness, version, "t", "secret", "none")
    assert found == {"t": E.NONE, "secret": REFUSED, "none": REFUSED}


async def test_metadata_by_id_reveals_no_name(harness, acls):
    acls.allow(1, "t")
    topics = [MetadataRequestTopic(topic_id=topic_id(name), name=None) for name in ("t", "secret")]
    message = through_wire(MetadataRequest(topics=topics), 12)
    answer = await finished(metadata(message, harness.contexts.administration, call(message, 12)))
    answer = through_wire(answer, 12)
    found = [(topic.name, topic.topic_id, topic.error_code) for topic in answer.topics]
    assert found == [("t", topic_id("t"), 0), (None, topic_id("secret"), REFUSED)]


class Creation:
    """Creates every requested topic."""

    def __init__(self):
        self.made = []

    async def create(self, names, _call):
        self.made += names
        return dict.fromkeys(names, E.NONE)


async def test_metadata_creates_only_with_right_to_create(harness, acls):
    creation = Creation()
    harness.contexts = replaced(harness.contexts, topic_creation=creation)
    for number, name in enumerate(("new", "seen", "bad name")):
        acls.allow(number, name, Operation.DESCRIBE)
    acls.allow(7, "new", Operation.CREATE)
    names = ("new", "seen", "hidden", "bad name")
    found = await listed(harness, 9, *names, create=True)
    assert creation.made == ["new"]
    unknown = E.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {"new": unknown} | dict.fromkeys(names[1:], REFUSED)
    acls.allow(8, CLUSTER_NAME, Operation.CREATE, ResourceType.CLUSTER)
    found = await listed(harness, 9, *names, create=True)
    assert creation.made == ["new", "new", "seen"]
    assert found["seen"] is unknown
    assert (found["bad name"], found["hidden"]) == (E.INVALID_TOPIC_EXCEPTION, REFUSED)


async def test_only_proven_followers_are_exempt_from_quotas(tmp_path):
    harness = open_harness(tmp_path)
    brokers = (registration(11), registration(12), registration(0))
    harness.set_image(topic("t", partition((11, 12, 0))), brokers=brokers)
    exempt = {}
    for broker_id, epoch in ((-1, -1), (12, 112), (12, 111), (13, 113), (0, 100)):
        state = ReplicaState(replica_id=broker_id, replica_epoch=epoch)
        asked = call(request("t", replica_state=state), 17)
        await finished(fetch(request("t", replica_state=state), harness.contexts.data, asked))
        exempt[broker_id, epoch] = asked.is_exempt
    assert {key for key in exempt if exempt[key]} == {(12, 112), (0, 100)}


@pytest.mark.parametrize("broker_id", [0, 12])
async def test_follower_needs_no_topic_rights(tmp_path, acls, broker_id):
    harness = open_harness(tmp_path)
    brokers = (registration(11), registration(broker_id))
    harness.set_image(topic("t", partition((11, broker_id))), brokers=brokers)
    harness.contexts = replaced(harness.contexts, authorizer=acls.authorizer)
    acls.allow(1, CLUSTER_NAME, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    state = ReplicaState(replica_id=broker_id, replica_epoch=100 + broker_id)
    _, found = await fetch_codes(harness, request("t", replica_state=state))
    assert found == {topic_id("t"): E.NONE}


@pytest.mark.parametrize(("asked_ms", "seconds"), [(1500, 1.5), (299_999, 299.999), (10**9, 300)])
async def test_wait_is_limited_to_five_minutes(harness, acls, autojump_clock, asked_ms, seconds):
    acls.allow(1, "t")
    began = trio.current_time()
    await fetch_codes(harness, request("t", max_wait_ms=asked_ms, min_bytes=1000))
    assert trio.current_time() - began == pytest.approx(seconds)

"""Terms of a Fetch: by kind of reader and version, and the partitions whose changes end a wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.broker.batches import append
from tests.broker.calls import call
from tests.checks import check_each
from tests.cluster.data_side import open_harness, partition, registration, topic
from trimaran.broker.fetching.fetch import FetchReader, FetchTerms
from trimaran.broker.fetching.replica_selection import ClientMetadata
from trimaran.broker.fetching.slots import Slot
from trimaran.broker.handlers.fetch import (
    _hide_storage_errors,
    _terms,
    attach_changed,
)
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)

E = ErrorCode


@pytest.fixture
def harness(tmp_path):
    harness = open_harness(tmp_path, fetch_max_bytes="5000")
    harness.set_image(
        topic("t", partition((11, 12, 0))),
        brokers=(registration(11), registration(12), registration(0)),
    )
    return harness


def request(*, replica_id=-1, epoch=-1, max_bytes=4000, old_id=-1, **fields):
    return FetchRequest(
        replica_id=old_id,
        replica_state=ReplicaState(replica_id=replica_id, replica_epoch=epoch),
        max_wait_ms=0,
        min_bytes=7,
        max_bytes=max_bytes,
        isolation_level=1,
        topics=[],
        **fields,
    )


def terms(context, message, version=18):
    """Returns the terms without the callables, and whether the call is exempt from quotas."""
    asked = call(message, version)
    found = _terms(message, context, asked)
    return found, asked.is_exempt


CONSUMERS = FetchTerms(min_bytes=7, max_bytes=4000, isolation_level=1, names_leaders=True)


def test_terms_of_consumers_depend_on_version(harness):
    old = {"names_leaders": False}
    older = {**old, "committed_unknown": E.NOT_LEADER_OR_FOLLOWER}
    rows = {
        18: {},
        16: {},
        15: old,
        11: old,
        10: older,
        3: older,
        2: {**older, "whole_messages": False},
        0: {**older, "whole_messages": False},
    }

    def check(row):
        version, changes = row
        assert terms(harness.contexts.data, request(), version) == (
            replace(CONSUMERS, **changes),
            False,
        )

    check_each(rows.items(), check)


@pytest.mark.parametrize("debugging", [-2, -3])
def test_reader_without_follower_id_is_consumer(harness, debugging):
    """Kafka's tools send -2 to read beyond the watermark."""
    assert terms(harness.contexts.data, request(old_id=debugging), 12) == (
        replace(CONSUMERS, names_leaders=False),
        False,
    )


@pytest.mark.parametrize(
    ("asked", "most"), [(4999, 4999), (5000, 5000), (5001, 5000), (0, 0), (-1, 0)]
)
def test_fetch_limits_are_capped_by_broker(harness, asked, most):
    found, _ = terms(harness.contexts.data, request(max_bytes=asked))
    assert found == replace(CONSUMERS, max_bytes=most)


def test_quota_limits_consumers_not_followers(harness):
    harness.contexts.data.quotas.fetch.set_limits({(("client-id", None),): 100.0})
    found, _ = terms(harness.contexts.data, request())
    assert found == replace(CONSUMERS, max_bytes=1000)
    found, exempt = terms(harness.contexts.data, request(replica_id=12, epoch=112))
    assert (found.max_bytes, exempt) == (4000, True)


def test_followers_and_impostors_get_different_terms(harness):
    rows = {
        (12, 112): (E.NONE, True),
        (0, 100): (E.NONE, True),
        (12, 111): (E.STALE_BROKER_EPOCH, False),
        (12, 113): (E.UNKNOWN_LEADER_EPOCH, False),
        (12, -1): (E.TOPIC_AUTHORIZATION_FAILED, False),
        (11, 111): (E.TOPIC_AUTHORIZATION_FAILED, False),
        (13, 113): (E.TOPIC_AUTHORIZATION_FAILED, False),
    }

    def check(row):
        (broker_id, epoch), (refused, exempt) = row
        expected = replace(CONSUMERS, replica_id=broker_id, replica_epoch=epoch, refused=refused)
        told = terms(harness.contexts.data, request(replica_id=broker_id, epoch=epoch))
        assert told == (expected, exempt)

    check_each(rows.items(), check)


def test_epoch_0_is_valid(harness):
    first = replace(registration(12), epoch=0)
    harness.set_image(topic("t", partition((11, 12))), brokers=(registration(11), first))
    found, exempt = terms(harness.contexts.data, request(replica_id=12, epoch=0))
    assert (found.refused, exempt) == (E.NONE, True)


def test_follower_id_location_depends_on_version(harness):
    def replica(asked):
        found, _ = terms(harness.contexts.data, asked)
        return found.replica_id, found.replica_epoch

    assert replica(request(replica_id=0, epoch=5, old_id=7)) == (0, 5)
    assert replica(request(old_id=7, epoch=5)) == (7, -1)
    assert replica(request(old_id=0)) == (0, -1)
    assert replica(request()) == (-1, -1)


def test_follower_redirection_needs_version_11_and_selector(harness):
    asked = []

    def selector(*what):
        asked.append(what)
        return 12

    context = replace(harness.contexts.data, replica_selector=selector)
    for version, reads in ((18, True), (11, True), (10, False)):
        found, _ = terms(context, request(rack_id="r"), version)
        assert (found.reads_followers, found.prefer is not None) == (reads, reads)
    found, _ = terms(context, request(replica_id=0, epoch=100))
    assert (found.reads_followers, found.prefer) == (False, None)
    found, _ = terms(context, request(rack_id="r"))
    assert found.prefer("the leader", 5) == 12
    cluster = harness.metadata.image.cluster
    assert asked == [("the leader", 5, ClientMetadata("r", "PLAINTEXT"), cluster, 11)]


def test_only_consumers_are_authorized_per_topic(harness):
    authorizer = Authorizer(["User:ANONYMOUS"])
    authorizer.complete_initial_load()
    context = replace(harness.contexts.data, authorizer=authorizer)
    found, _ = terms(context, request())
    assert found.may_read("t")
    for broker_id in (0, 12):
        found, _ = terms(context, request(replica_id=broker_id, epoch=100 + broker_id))
        assert found.may_read is None
    assert terms(harness.contexts.data, request())[0].may_read is None


def test_followers_are_throttled_where_a_throttle_is_set(harness):
    throttle = harness.contexts.data.throttles.leader
    follower = request(replica_id=0, epoch=100)
    assert terms(harness.contexts.data, follower)[0].throttle is None
    throttle.set_replicas("t", [0])
    assert throttle.is_set
    assert terms(harness.contexts.data, follower)[0].throttle is throttle
    assert terms(harness.contexts.data, request())[0].throttle is None


def test_old_clients_see_failed_disk_as_leader_change():
    codes = [E.KAFKA_STORAGE_ERROR, E.NONE, E.LOG_DIR_NOT_FOUND, E.NOT_LEADER_OR_FOLLOWER]
    partitions = [
        PartitionData(partition_index=index, error_code=code, high_watermark=-1, records=None)
        for index, code in enumerate(codes)
    ]
    topics = [FetchableTopicResponse(topic="t", partitions=partitions[:1])]
    topics.append(FetchableTopicResponse(topic="u", partitions=partitions[1:]))
    _hide_storage_errors(FetchResponse(responses=topics))
    assert [partition.error_code for partition in partitions] == [
        E.NOT_LEADER_OR_FOLLOWER,
        *codes[1:],
    ]


def slot_of(reader, index, *, upto_end=False, name="t", seen=0):
    wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    slot = Slot(reader, FetchTopic(topic=name, partitions=[wanted]), wanted, upto_end=upto_end)
    slot.seen_upto = seen
    return slot


def test_wait_wakes_for_changes_since_first_check(harness):
    """Consumers wait for commits, followers for the log's end; a partition not led here never waits."""
    harness.set_image(
        topic("t", partition(), partition(), partition((11, 12), leader=12), partition()),
        brokers=(registration(11), registration(12)),
    )
    append(harness, b"a", index=0)
    harness.flush()
    append(harness, b"b", index=0)
    append(harness, b"c", index=1)
    reader = FetchReader()
    rows = {
        "as it was, committed": (slot_of(reader, 0, seen=1), False),
        "committed since": (slot_of(reader, 0, seen=0), True),
        "at the end, as it was": (slot_of(reader, 0, upto_end=True, seen=2), False),
        "more at the end": (slot_of(reader, 0, upto_end=True, seen=1), True),
        "not committed": (slot_of(reader, 1, seen=0), False),
        "appended": (slot_of(reader, 1, upto_end=True, seen=0), True),
        "follows": (slot_of(reader, 2, seen=0), True),
        "empty": (slot_of(reader, 3, seen=0), False),
        "not there": (slot_of(reader, 7, seen=0), True),
        "unknown": (slot_of(reader, 0, name="none", seen=0), True),
    }
    steps = attach_changed([slot for slot, _ in rows.values()], reader, harness.contexts.data)
    assert list(steps) == [None] * len(rows)
    changed = {name: slot in reader.changed for name, (slot, _) in rows.items()}
    assert changed == {name: expected for name, (_, expected) in rows.items()}
    attached = {name for name, (slot, _) in rows.items() if slot.attached_to is not None}
    assert attached == rows.keys() - {"not there", "unknown"}
    for slot, _ in rows.values():
        slot.detach()

"""The engine of one connection: requests in, verdicts out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trimaran.faults.engine import EngineHarness
from tests.trimaran.faults.samples import error_of_items
from trimaran.faults.places import items_of, places_of, zero_struct
from trimaran.faults.verdicts import (
    EndBoth,
    GoSilent,
    LimitRate,
    SendFrame,
    SendPart,
    WaitRelease,
    WaitSeconds,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from trimaran.wire.messages.registry import RESPONSES

ID = bytes(range(16))


def heartbeat(group="g", member="m"):
    return HeartbeatRequest(group_id=group, generation_id=1, member_id=member)


def commit(*pairs, group="g"):
    topics = {}
    for topic, partition in pairs:
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=7, committed_metadata=None
            )
        )
    return OffsetCommitRequest(
        group_id=group,
        topics=[OffsetCommitRequestTopic(name=name, partitions=ps) for name, ps in topics.items()],
    )


def produce(*partitions, acks=-1, records=b""):
    return ProduceRequest(
        acks=acks,
        timeout_ms=1,
        topic_data=[
            TopicProduceData(
                name="orders",
                partition_data=[PartitionProduceData(index=n, records=records) for n in partitions],
            )
        ],
    )


def fetch(*partitions, epoch=-1, session=0, topic="orders"):
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1)
                    for n in partitions
                ],
            )
        ],
    )


def served(request, version):
    """Answers as a broker that serves everything: each item has no error."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        return None
    if isinstance(request, MetadataRequest):
        return metadata()
    for place in places_of(request.KEY, version):
        if not place.needs_response:
            return error_of_items(place, request.KEY, items_of(request, version), ErrorCode.NONE)
    return zero_struct(RESPONSES[request.KEY])


def metadata():
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=n, host="h", port=9) for n in (1, 2)],
        topics=[
            MetadataResponseTopic(
                error_code=0,
                name="orders",
                topic_id=ID,
                partitions=[
                    MetadataResponsePartition(
                        error_code=0,
                        partition_index=n,
                        leader_id=1,
                        leader_epoch=5,
                        replica_nodes=[1, 2],
                        isr_nodes=[1, 2],
                    )
                    for n in (0, 1)
                ],
            )
        ],
    )


@pytest.fixture
def harness():
    return EngineHarness(served)


def codes(response):
    """Returns topic, partition and code of each partition in a response."""
    topics = response.topics if hasattr(response, "topics") else response.responses
    return [
        (
            getattr(topic, "name", None) or getattr(topic, "topic", None) or "",
            getattr(p, "partition_index", getattr(p, "index", None)),
            p.error_code,
        )
        for topic in topics
        for p in (getattr(topic, "partitions", None) or topic.partition_responses)
    ]


def test_requests_pass_untouched_without_rules(harness):
    assert harness.call(heartbeat(), 4).error_code == 0
    assert [type(v) for v in harness.verdicts] == [SendFrame, SendFrame]


def test_error_answers_only_the_matching_partitions(harness):
    rule = harness.faults.add(
        api="OffsetCommit", topic="ord*", partition=[0], error="NOT_COORDINATOR"
    )
    response = harness.call(commit(("orders", 0), ("orders", 1), ("other", 0)), 8)
    assert sorted(codes(response)) == [("orders", 0, 16), ("orders", 1, 0), ("other", 0, 0)]
    ((_, forwarded),) = harness.received
    assert [(i["topic"], i["partition"]) for i in items_of(forwarded, 8)] == [
        ("orders", 1),
        ("other", 0),
    ]
    assert harness.faults.counters(rule.name).applied == 1
    (seen,) = harness.faults.seen(rule.name)
    assert len(seen.request.topics) == 2
    assert sorted(codes(seen.response)) == sorted(codes(response))


def test_request_without_remaining_items_is_not_forwarded(harness):
    harness.faults.add(api="OffsetCommit", topic="orders", error="UNKNOWN_MEMBER_ID")
    assert codes(harness.call(commit(("orders", 0)), 8)) == [("orders", 0, 25)]
    assert harness.received == []


def test_applied_error_follows_after_the_broker(harness):
    harness.faults.add(
        api="Produce", partition=1, error="NOT_ENOUGH_REPLICAS_AFTER_APPEND", applied=True
    )
    response = harness.call(produce(0, 1), 8)
    assert codes(response) == [("orders", 0, 0), ("orders", 1, 20)]
    assert len(harness.received[0][1].topic_data[0].partition_data) == 2


def test_two_rules_share_the_items_of_a_request(harness):
    harness.faults.add(api="Produce", partition=0, error="NOT_LEADER_OR_FOLLOWER")
    harness.faults.add(api="Produce", error="KAFKA_STORAGE_ERROR", delay=0.5, times=1)
    response = harness.call(produce(0, 1), 8)
    assert sorted(codes(response)) == [("orders", 0, 6), ("orders", 1, 56)]
    assert codes(harness.call(produce(1), 8)) == [("orders", 1, 0)]


def test_group_error_is_at_the_top(harness):
    harness.faults.add(api="Heartbeat", group="g", error="REBALANCE_IN_PROGRESS", after=1, every=2)
    found = [harness.call(heartbeat(), 4).error_code for _ in range(5)]
    assert found == [0, 27, 0, 27, 0]
    assert harness.call(heartbeat("other"), 4).error_code == 0


def test_topic_ids_are_matched_by_names(harness):
    harness.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER")
    harness.faults.names.learn(metadata())
    request = produce(0)
    request.topic_data[0].name, request.topic_data[0].topic_id = "", ID
    response = harness.call(request, 13)
    assert response.responses[0].topic_id == ID
    assert codes(response) == [("", 0, 6)]


def test_names_are_learned_from_metadata_that_pass(harness):
    harness.faults.add(api="Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER")
    assert harness.faults.names.name_of(ID) is None
    harness.call(MetadataRequest(topics=None), 12)
    assert harness.faults.names.name_of(ID) == "orders"


def test_fetch_sessions_are_declined_for_partitions(harness):
    rule = harness.faults.add(
        api="Fetch", topic="orders", partition=0, error="NOT_LEADER_OR_FOLLOWER", times=1
    )
    declined = harness.call(fetch(1, epoch=3, session=9), 12)
    assert declined.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert harness.faults.counters(rule.name).matched == 0
    response = harness.call(fetch(0, 1, epoch=0), 12)
    assert sorted(codes(response)) == [("orders", 0, 6), ("orders", 1, 0)]
    ((_, forwarded),) = harness.received
    assert (forwarded.session_epoch, forwarded.max_wait_ms, forwarded.min_bytes) == (-1, 0, 0)
    harness.call(fetch(1, epoch=3, session=9), 12)
    assert harness.received[-1][1].session_epoch == 3


def test_fetch_session_passes_if_whole_requests_matter(harness):
    harness.faults.add(api="Fetch", delay=1)
    harness.faults.add(api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND", after=1)
    assert harness.call(fetch(1, epoch=3, session=9), 12).error_code == 0
    assert harness.received[0][1].session_epoch == 3
    assert harness.call(fetch(1, epoch=4, session=9), 12).error_code == 70


def test_own_answer_waits_for_earlier_responses(harness):
    harness.faults.add(api="Heartbeat", error="UNKNOWN_MEMBER_ID")
    harness.request(commit(("orders", 0)), 8)
    assert harness.request(heartbeat(), 4).to_client == ()
    harness.request(commit(("orders", 1)), 8)
    harness.respond(1)
    assert [correlation_id for correlation_id, _ in harness.decoded()] == [1, 2]
    harness.respond()
    assert [correlation_id for correlation_id, _ in harness.decoded()] == [1, 2, 3]


def test_delay_and_throttle_are_verdicts(harness):
    harness.faults.add(api="Heartbeat", delay=0.5)
    harness.faults.add(api="Heartbeat", delay=0.25, side="response", throttle=1000)
    assert harness.request(heartbeat(), 4).to_broker[0] == WaitSeconds(0.5)
    verdicts = harness.respond()
    assert verdicts[:2] == [WaitSeconds(0.25), LimitRate(1000)]
    assert isinstance(verdicts[2], SendFrame)


def test_random_delay_repeats_under_the_seed():
    def drawn(seed, name):
        harness = EngineHarness(served)
        harness.faults.seed = seed
        harness.faults.add(api="Heartbeat", delay=[0, 1], name=name)
        return [harness.request(heartbeat(), 4).to_broker[0].seconds for _ in range(3)]

    assert drawn(1, "a") == drawn(1, "a")
    assert len({*drawn(1, "a"), *drawn(2, "a"), *drawn(1, "b")}) == 9


def test_held_request_is_released_by_name(harness):
    rule = harness.faults.add(api="Heartbeat", hold="request", name="barrier")
    wait, sent = harness.request(heartbeat(), 4).to_broker
    assert isinstance(wait, WaitRelease)
    assert isinstance(sent, SendFrame)
    released = []
    assert harness.faults.when_released(wait.ticket, lambda: released.append(1))
    assert harness.faults.holding(rule.name) == 1
    assert harness.faults.release("barrier") == 1
    assert released == [1]
    assert not harness.faults.when_released(wait.ticket, lambda: None)


def test_held_request_is_released_by_another_rule(harness):
    harness.faults.add(api="Heartbeat", member="a", hold="request", released_by="b", name="a")
    harness.faults.add(api="Heartbeat", member="b", name="b")
    harness.request(heartbeat(member="a"), 4)
    assert harness.faults.holding("a") == 1
    harness.request(heartbeat(member="b"), 4)
    assert harness.faults.holding("a") == 0


def test_end_of_connection_releases_its_frames(harness):
    harness.faults.add(api="Heartbeat", hold="response", name="h")
    harness.request(heartbeat(), 4)
    assert harness.faults.holding("h") == 1
    harness.engine.on_close()
    assert harness.faults.holding("h") == 0


def test_nothing_follows_a_lost_request(harness):
    harness.faults.add(api="Heartbeat", drop="request", times=1)
    harness.request(commit(("orders", 0)), 8)
    harness.request(heartbeat(), 4)
    harness.request(heartbeat(), 4)
    assert [correlation_id for correlation_id, _ in harness.received] == [1]
    harness.respond()
    assert [correlation_id for correlation_id, _ in harness.decoded()] == [1]


def test_lost_produce_without_response_loses_nothing_else(harness):
    harness.faults.add(api="Produce", drop="request", times=1)
    harness.request(produce(0, acks=0), 8)
    assert harness.call(heartbeat(), 4).error_code == 0
    assert len(harness.received) == 1


def test_nothing_follows_a_lost_response(harness):
    harness.faults.add(api="OffsetCommit", drop="response")
    assert harness.call(commit(("orders", 0)), 8) is None
    assert harness.call(heartbeat(), 4) is None
    assert len(harness.received) == 2
    assert [v for v in harness.verdicts if isinstance(v, GoSilent)] == [GoSilent()]


def test_half_open_connection_is_silent_both_ways(harness):
    harness.faults.add(api="OffsetCommit", half_open=True)
    assert harness.call(commit(("orders", 0)), 8) is None
    assert harness.call(heartbeat(), 4) is None
    assert len(harness.received) == 1


@pytest.mark.parametrize("kind", ["close", "reset"])
def test_connection_ends_at_each_moment(kind):
    def verdicts(moment):
        harness = EngineHarness(served)
        harness.faults.add(api="Heartbeat", **{kind: moment})
        to_client = [*harness.request(heartbeat(), 4).to_client, *harness.respond()]
        return to_client, harness.received

    end = EndBoth(by_reset=kind == "reset")
    assert verdicts("before") == ([end], [])
    (part, ended), received = verdicts("middle")
    assert isinstance(part, SendPart)
    assert part.size == len(part.frame) // 2 > 4
    assert (ended, len(received)) == (end, 1)
    (sent, ended), _ = verdicts("after")
    assert isinstance(sent, SendFrame)
    assert ended == end


def test_response_is_truncated_or_doubled(harness):
    harness.faults.add(api="Heartbeat", truncate=5, times=1)
    harness.request(heartbeat(), 4)
    (sent,) = harness.respond()
    assert len(sent.frame) == 5
    harness.faults.add(api="Heartbeat", duplicate="response")
    harness.request(heartbeat(), 4)
    first, second = harness.respond()
    assert first == second


def test_doubled_request_is_answered_once(harness):
    harness.faults.add(api="OffsetCommit", duplicate="request", times=1)
    harness.request(commit(("orders", 0)), 8)
    harness.request(heartbeat(), 4)
    assert [correlation_id for correlation_id, _ in harness.received] == [1, 1, 2]
    harness.respond()
    assert [correlation_id for correlation_id, _ in harness.decoded()] == [1, 2]


def test_error_without_response_ends_the_connection(harness):
    harness.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    assert harness.request(produce(0, acks=0), 8).to_client == (EndBoth(by_reset=False),)


@pytest.mark.parametrize("version", [0, 3, 8, 9, 13])
def test_produce_without_acks_expects_no_response(harness, version):
    harness.request(produce(0, acks=0), version)
    harness.request(produce(0, acks=1), version)
    harness.respond()
    assert [correlation_id for correlation_id, _ in harness.decoded()] == [2]


def test_fields_of_both_sides_are_changed(harness):
    rule = harness.faults.add(
        api="Produce", change={"request.acks": 1, "response.throttle_time_ms": 77}
    )
    assert harness.call(produce(0), 8).throttle_time_ms == 77
    assert harness.received[0][1].acks == 1
    assert harness.faults.seen(rule.name)[0].request.acks == -1


@pytest.mark.parametrize(
    "change", [{"request.group_instance_id": "i"}, {"response.error_code": 1 << 20}]
)
def test_change_unknown_to_version_is_reported(harness, change):
    harness.faults.add(api="Heartbeat", change=change)
    assert harness.call(heartbeat(), 0).error_code == 0
    assert "was not changed" in str(harness.faults.trace)


def test_script_with_impossible_response_ends_connection(harness):
    harness.faults.add(api="Heartbeat", script=lambda _seen: HeartbeatResponse(error_code=1 << 20))
    assert harness.request(heartbeat(), 4).to_client == (EndBoth(by_reset=False),)
    assert len(harness.faults.script_errors) == 1


def test_leaders_are_stale_wrong_or_none(harness):
    def leaders():
        response = harness.call(MetadataRequest(topics=None), 12)
        return [(p.leader_id, p.leader_epoch, p.error_code) for p in response.topics[0].partitions]

    with harness.faults.changed:
        rule = harness.faults.add(api="Metadata", partition=1, topic="orders", leaders="wrong")
    assert leaders() == [(1, 5, 0), (2, 5, 0)]
    harness.faults.remove(rule.name)
    rule = harness.faults.add(api="Metadata", leaders="none")
    assert leaders() == [(-1, 5, 5)] * 2
    harness.faults.remove(rule.name)
    harness.faults.first_leaders["orders", 0] = (2, 3)
    harness.faults.add(api="Metadata", leaders="stale")
    assert leaders() == [(2, 3, 0), (1, 5, 0)]


def test_topic_error_in_metadata_of_all_topics(harness):
    harness.faults.add(api="Metadata", topic="ord*", error="LEADER_NOT_AVAILABLE")
    response = harness.call(MetadataRequest(topics=None), 12)
    assert [topic.error_code for topic in response.topics] == [5]
    assert len(harness.received) == 1


def test_other_address_is_advertised(harness):
    harness.faults.add(api="Metadata", advertise="nowhere:1")
    response = harness.call(MetadataRequest(topics=None), 12)
    assert {(broker.host, broker.port) for broker in response.brokers} == {("nowhere", 1)}


def test_checksum_of_produced_batch_is_corrupted(harness):
    harness.faults.add(api="Produce", partition=1, corrupt="request")
    records = bytes(100)
    harness.call(produce(0, 1, records=records), 8)
    first, second = harness.received[0][1].topic_data[0].partition_data
    assert bytes(first.records) == records
    assert bytes(second.records) != records
    assert len(second.records) == len(records)


def test_conditions_look_at_the_whole_request(harness):
    rule = harness.faults.add(api="Produce", where="acks == 1")
    harness.call(produce(0), 8)
    harness.call(produce(0, acks=1), 8)
    assert harness.faults.counters(rule.name).matched == 1


def test_rule_matches_by_connection_and_client():
    harness = EngineHarness(served)
    matching = {
        "version": "4",
        "listener": "PLAIN*",
        "broker": 1,
        "client_id": "c",
        "principal": "User:*",
        "connection": 1,
        "software": "java",
    }
    other = {
        "version": "0-3",
        "listener": "SSL",
        "broker": 2,
        "client_id": "d",
        "principal": "x",
        "connection": 2,
        "software": "java 3*",
    }
    harness.peer = type(harness.peer)(0, "PLAINTEXT", 1, "", "", "User:a")
    for key, value in matching.items():
        harness.faults.add(api="Heartbeat", name=f"yes-{key}", **{key: value})
    for key, value in other.items():
        harness.faults.add(api="Heartbeat", name=f"no-{key}", delay=0, **{key: value})
    hello = ApiVersionsRequest(client_software_name="java", client_software_version="4.0")
    harness.call(hello, 3)
    harness.call(heartbeat(), 4)
    assert harness.faults.unmatched() == [f"no-{key}" for key in other]


def test_rule_ends_with_its_time():
    now = [0.0]
    harness = EngineHarness(served)
    harness.faults.clock = lambda: now[0]
    harness.faults.add(api="Heartbeat", error="UNKNOWN_MEMBER_ID", until=10)
    assert harness.call(heartbeat(), 4).error_code == 25
    now[0] = 10.5
    assert harness.call(heartbeat(), 4).error_code == 0


def test_sequence_is_applied_step_by_step(harness):
    harness.faults.add(
        api="Heartbeat",
        sequence=[{"error": "NOT_COORDINATOR"}, {}, {"error": "UNKNOWN_MEMBER_ID"}],
        once_through=True,
    )
    assert [harness.call(heartbeat(), 4).error_code for _ in range(5)] == [16, 0, 25, 0, 0]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (None, 0),
        (ErrorCode.NOT_COORDINATOR, 16),
        ({"error": "UNKNOWN_MEMBER_ID"}, 25),
        (HeartbeatResponse(error_code=82), 82),
        (3, 0),
        ({"error": "NONSENSE"}, 0),
    ],
)
def test_script_decides_about_a_request(harness, result, code):
    requests = []

    def script(seen):
        requests.append(seen.request.group_id)
        return result

    harness.faults.add(api="Heartbeat", script=script)
    assert harness.call(heartbeat(), 4).error_code == code
    assert requests == ["g"]
    assert len(harness.faults.script_errors) == (result == 3 or result == {"error": "NONSENSE"})


def test_script_replaces_a_request(harness):
    harness.faults.add(api="Heartbeat", script=lambda _seen: heartbeat("other"))
    harness.call(heartbeat(), 4)
    assert harness.received[0][1].group_id == "other"


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"n,,n=user,r=nonce",
        b"\0user\0secret",
        bytes.fromhex("005f00030000000100016300"),
        bytes.fromhex("0003007f000000010001630000"),
        bytes.fromhex("000c0004000000010001630000"),
    ],
)
def test_unknown_frames_pass_untouched(harness, frame):
    harness.faults.add(error="UNKNOWN_SERVER_ERROR", api=[*range(60)])
    assert harness.engine.on_request(frame).to_broker == (SendFrame(frame),)
    response = frame[4:8] + b"anything"
    assert harness.engine.on_response(response).to_client == (SendFrame(response),)


def test_trace_is_the_same_in_two_runs():
    def run():
        harness = EngineHarness(served)
        harness.faults.seed = 5
        harness.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER", probability=0.5)
        harness.faults.add(api="Produce", delay=[0, 1], probability=0.3)
        for n in range(30):
            harness.call(produce(n % 2), 8)
        return str(harness.faults.trace)

    assert run() == run()
    assert "Produce v8 orders-0: rule-1: error NOT_LEADER_OR_FOLLOWER" in run()


ACTIONS = {
    "pass": None,
    "answer": {"error": "UNKNOWN_MEMBER_ID"},
    "applied": {"error": "FENCED_INSTANCE_ID", "applied": True},
    "twice": {"duplicate": "request"},
    "slow": {"delay": 1},
}
EXPECTED = {"answer": 25, "applied": 82}


@given(st.lists(st.tuples(st.sampled_from([*ACTIONS]), st.integers(0, 3)), max_size=12))
def test_each_request_is_answered_once_in_order(steps):
    harness = EngineHarness(served)
    for name, action in ACTIONS.items():
        if action:
            harness.faults.add(api="Heartbeat", member=name, **action)
    for name, answered in steps:
        harness.request(heartbeat(member=name), 4)
        harness.respond(answered)
    harness.respond()
    got = [(correlation_id, message.error_code) for correlation_id, message in harness.decoded()]
    assert got == [(n + 1, EXPECTED.get(name, 0)) for n, (name, _) in enumerate(steps)]


PAIRS = st.lists(
    st.tuples(st.sampled_from(["a", "ab", "b"]), st.integers(0, 3)), unique=True, max_size=8
)


@given(
    PAIRS,
    st.sampled_from(["a", "a*", "b", "*"]),
    st.sets(st.integers(0, 3), min_size=1),
    st.booleans(),
)
def test_items_are_split_as_one_by_one(pairs, topic, partitions, applied):
    """Compares the split with a twin that decides about each partition alone."""
    harness = EngineHarness(served)
    harness.faults.add(
        api="OffsetCommit",
        topic=topic,
        partition=sorted(partitions),
        error="NOT_COORDINATOR",
        applied=applied,
    )
    response = harness.call(commit(*pairs), 8)
    chosen = [
        (name, partition)
        for name, partition in pairs
        if partition in partitions
        and (topic == "*" or name == topic or (topic == "a*" and name.startswith("a")))
    ]
    assert sorted(codes(response)) == sorted((*pair, 16 if pair in chosen else 0) for pair in pairs)
    got = [
        (item["topic"], item["partition"])
        for _, request in harness.received
        for item in items_of(request, 8)
    ]
    assert sorted(got) == sorted(pair for pair in pairs if applied or pair not in chosen)

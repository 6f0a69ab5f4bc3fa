"""Frames that real clients and brokers of many versions sent (`tests.interop.record_frames`), decoded and encoded
again.

The files are named after clients; `java` is Kafka's own tools, and `kafka-broker` is what a 3.9 broker in ZooKeeper
mode sent to itself.
"""

import functools
from pathlib import Path

import pytest

from trimaran.log.batches.batch import iter_batches
from trimaran.log.batches.records import decode_records
from trimaran.log.old_formats.message_sets import decode_message_set
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.consumer_protocol import decode_assignment, decode_subscription
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.text.captured import decode, encode_again, parse_line

FILES = sorted((Path(__file__).parent / "testdata/captured").glob("*.jsonl"))
MAGIC_POSITION = 16


@functools.cache
def frames(name):
    (file,) = (f for f in FILES if f.stem == name)
    return [parse_line(line) for line in file.read_text().splitlines()]


def messages(name, key, direction="request"):
    found = [f for f in frames(name) if (f.api_key, f.direction) == (key, direction)]
    assert found
    return [decode(frame).message for frame in found]


@pytest.mark.parametrize("name", [f.stem for f in FILES])
def test_every_frame_is_encoded_unchanged(name):
    for frame in frames(name):
        again = encode_again(frame, decode(frame))
        assert again == frame.frame, (frame.api_name, frame.api_version, frame.direction)


def test_oldest_and_newest_versions_are_included():
    seen = {(f.api_key, f.api_version) for file in FILES for f in frames(file.stem)}
    assert len(seen) > 120
    assert seen >= {(key, 0) for key in (0, 1, 2, 3, 4, 6, 7, 10)}
    assert seen >= {(ApiKey.PRODUCE, 13), (ApiKey.FETCH, 18), (ApiKey.METADATA, 13)}
    assert seen >= {
        (ApiKey.API_VERSIONS, 5),
        (ApiKey.DELETE_GROUPS, 3),
        (ApiKey.TXN_OFFSET_COMMIT, 6),
    }
    assert seen >= {
        (ApiKey.SHARE_FETCH, 2),
        (ApiKey.SHARE_ACKNOWLEDGE, 2),
        (ApiKey.UNREGISTER_CONTROLLER, 0),
    }
    assert seen >= {(ApiKey.STREAMS_GROUP_HEARTBEAT, 1), (ApiKey.STREAMS_GROUP_DESCRIBE, 1)}


@pytest.mark.parametrize(
    ("name", "software"),
    [
        ("java-4.4.0", ("apache-kafka-java", "4.4.0")),
        ("java-4.3.0", ("apache-kafka-java", "4.3.0")),
        ("java-2.8.2", ("apache-kafka-java", "2.8.2")),
        ("confluent-2.16.1", ("confluent-kafka-python", "2.16.1-rdkafka-2.16.0")),
        ("kafka-python-3.0.12", ("kafka-python", "3.0.12")),
        ("java-1.1.1", ("", "")),
    ],
)
def test_clients_report_their_software(name, software):
    asked = messages(name, ApiKey.API_VERSIONS)
    assert software in {(m.client_software_name, m.client_software_version) for m in asked}


def test_controlled_shutdown_v0_header_has_no_client_id():
    (frame,) = (f for f in frames("java-0.8.2.2") if f.api_key == 7 and f.direction == "request")
    assert frame.frame == bytes.fromhex("0007 0000 00000000 00000001")
    assert decode(frame).client_id == ""
    assert decode(frame).message.broker_id == 1


def test_controller_of_kafka_0_8_names_leaders():
    states = [m.ungrouped_partition_states[0] for m in messages("java-0.8.2.2", 4)]
    assert {(s.topic_name, s.leader, *s.isr) for s in states} >= {("gone", 1, 1)}


def test_controller_3_9_stops_then_deletes_replicas():
    states = [m.topic_states[0].partition_states[0] for m in messages("kafka-broker-3.9.1", 5)]
    assert [s.delete_partition for s in states] == [False, True]
    assert {s.leader_epoch for s in states} == {-2}  # a topic that is being deleted
    (shutdown,) = messages("kafka-broker-3.9.1", 7)
    assert shutdown.broker_epoch == 25


def test_frames_of_groups_are_decoded():
    join = messages("kafka-python-3.0.12", ApiKey.JOIN_GROUP)[0]
    assert [p.name for p in join.protocols] == ["range", "roundrobin"]
    assert decode_subscription(join.protocols[0].metadata).topics == ["pages"]
    given = messages("aiokafka-0.14.0", ApiKey.SYNC_GROUP, "response")
    (assigned,) = decode_assignment(given[-1].assignment).assigned_partitions
    assert (assigned.topic, assigned.partitions) == ("clicks", [0])
    heartbeats = messages("java-4.3.0", 68)
    assert {h.member_epoch for h in heartbeats} == {-1, 2}
    assert {h.group_id for h in heartbeats} == {"g2"}


def test_transaction_of_librdkafka_is_decoded():
    (end, *_) = messages("confluent-2.16.1", ApiKey.END_TXN)
    assert (end.transactional_id, end.committed) == ("t1", True)


def test_captured_errors_have_messages():
    created = messages("java-4.3.0", ApiKey.CREATE_TOPICS, "response")
    errors = {t.error_code: t.error_message for m in created for t in m.topics}
    assert errors.keys() == {0, 17}
    assert errors[17].startswith("Topic name is invalid: 'a b'")


def records_of(data):
    if data[MAGIC_POSITION] < 2:
        return decode_message_set(data)
    return [record for batch in iter_batches(data) for record in decode_records(batch)]


def record_fields(name, direction):
    if direction == "request":
        for request in messages(name, ApiKey.PRODUCE):
            yield from (p.records for t in request.topic_data for p in t.partition_data)
    else:
        for response in messages(name, ApiKey.FETCH, direction):
            yield from (p.records for t in response.responses for p in t.partitions)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("java-0.8.2.2", {b"v1", b"v2", b"v3"}),
        ("java-0.10.2.2", {b"v1", b"v2"}),
        ("java-1.1.1", {b"v1", b"v2"}),
        ("java-2.8.2", {b"v1", b"v2"}),
        ("java-3.9.1", {b"v1", b"v2"}),
        ("java-4.3.0", {b"v1", b"v2"}),
        ("confluent-2.16.1", {b"v"}),
        ("kafka-python-3.0.12", {b"v0", b"v1", b"v2"}),
        ("aiokafka-0.14.0", {b"v0", b"v1", b"v2"}),
    ],
)
def test_records_of_every_format_are_decoded(name, values):
    """Message sets of 0.8 and 0.10 use gzip; batches use snappy, lz4 and zstd."""
    sent, received = (
        {r.value for data in record_fields(name, direction) if data for r in records_of(data)}
        for direction in ("request", "response")
    )
    assert sent
    assert sent <= values
    assert values <= received  # also has a transaction marker


def acknowledged(key):
    return [
        (batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for message in messages("java-4.4.0", key)
        for topic in message.topics
        for partition in topic.partitions
        for batch in partition.acknowledgement_batches
    ]


def test_share_consumer_4_4_accepts_and_rejects_ranges():
    assert acknowledged(ApiKey.SHARE_FETCH) == [(10, 19, [1])]
    assert acknowledged(ApiKey.SHARE_ACKNOWLEDGE) == [(5, 9, [3])]


def test_streams_member_4_4_joins_with_its_topology():
    sent = messages("java-4.4.0", ApiKey.STREAMS_GROUP_HEARTBEAT)
    counts = {m.member_epoch: m.topology and len(m.topology.subtopologies) for m in sent}
    assert (counts[0], counts[2]) == (2, None)


def test_producer_4_4_commits_offsets_by_topic_id():
    (topic,) = messages("java-4.4.0", ApiKey.TXN_OFFSET_COMMIT)[0].topics
    assert topic.name == ""
    assert any(topic.topic_id)


def test_unknown_controller_is_refused_by_kafka_4_4():
    (answer,) = messages("java-4.4.0", ApiKey.UNREGISTER_CONTROLLER, "response")
    assert answer.error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED

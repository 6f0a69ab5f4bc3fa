"""Bytes written by Apache Kafka 4.3.0 and its Java client, decoded and encoded again."""

import pytest

from trimaran.wire.buffers.primitives import uuid_from_text
from trimaran.wire.messages.api_versions import ApiVersionsRequest
from trimaran.wire.messages.control import ControlType, KRaftVersionRecord, decode_control_value
from trimaran.wire.messages.create_topics import CreateTopicsResponse
from trimaran.wire.messages.describe_quorum import DescribeQuorumResponse
from trimaran.wire.messages.fetch import FetchResponse
from trimaran.wire.messages.header import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from trimaran.wire.messages.metadata import MetadataRequest, MetadataResponse
from trimaran.wire.records.brokers import BrokerRegistrationChangeRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.metadata import decode_metadata_record, encode_metadata_record
from trimaran.wire.records.topics import PartitionChangeRecord, PartitionRecord, TopicRecord

REQUESTS = {
    ApiVersionsRequest: (
        "0012000400000000000d61646d696e636c69656e742d3100126170616368652d6b61666b612d6a617661"
        "06342e332e3000"
    ),
    MetadataRequest: "0003000d00000001000d61646d696e636c69656e742d310001010000",
}

RESPONSES = {
    (MetadataResponse, 7): (
        "0000000700000000000000010000000100093132372e302e302e3100007149ffff001670427a4547795144"
        "5372365138454e6d7a67386537510000000100000001000000066f72646572730000000002000000000000"
        "0000000100000000000000010000000100000001000000010000000000000000000100000001000000000000"
        "000100000001000000010000000100000000"
    ),
    (MetadataResponse, 13): (
        "00000007000000000002000000010a3132372e302e302e310000714900001770427a45477951445372365138"
        "454e6d7a673865375100000001020000076f7264657273c49587a1eb774c4c824aec525efc0eaa0003000000"
        "0000000000000100000000020000000102000000010100000000000001000000010000000002000000010200"
        "00000101008000000000000000"
    ),
    (DescribeQuorumResponse, 2): (
        "000000070000000102135f5f636c75737465725f6d6574616461746102000000000000010000000100000001"
        "00000000000000940200000001125a20f88c204d54ad12bc72dff46d170000000000000094000001a1fc0e7c"
        "fe000001a1fc0e7cfe000100000200000001020b434f4e54524f4c4c45520a3132372e302e302e3171ad0000"
        "00"
    ),
    (FetchResponse, 7): (
        "00000007000000000000000000000000000100066f7264657273000000010000000100000000000000000000"
        "00000000000000000000000000000000ffffffff00000000"
    ),
    (FetchResponse, 17): (
        "00000007000000000000000000000002c49587a1eb774c4c824aec525efc0eaa020000000100000000000000"
        "0000000000000000000000000000000000000000ffffffff01000000"
    ),
    (CreateTopicsResponse, 7): (
        "00000007000000000002046120620000000000000000000000000000000000116e546f706963206e616d6520"
        "697320696e76616c69643a20276120622720636f6e7461696e73206f6e65206f72206d6f7265206368617261"
        "6374657273206f74686572207468616e20415343494920616c7068616e756d65726963732c20272e272c2027"
        "5f2720616e6420272d27ffffffffffff010000"
    ),
}

TOPIC_ID = uuid_from_text("xJWHoet3TEyCSuxSXvwOqg")

RECORDS = {
    "010c00116d657461646174612e76657273696f6e001e00": FeatureLevelRecord(
        name="metadata.version", feature_level=30
    ),
    "01110000000001000000000000000d010001ff": BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=13, fenced=-1
    ),
    "010200076f7264657273c49587a1eb774c4c824aec525efc0eaa00": TopicRecord(
        name="orders", topic_id=TOPIC_ID
    ),
    (
        "01030200000000c49587a1eb774c4c824aec525efc0eaa020000000102000000010101000000010000000000"
        "00000002125a20f88c204d54ad12bc72dff46d1700"
    ): PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[1],
        isr=[1],
        removing_replicas=[],
        adding_replicas=[],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=[bytes.fromhex("125a20f88c204d54ad12bc72dff46d17")],
    ),
    (
        "010502000000007cc31be3d7f34b73bac4ffd3062fb56b040001010104ffffffff06050200000001070502"
        "00000001"
    ): PartitionChangeRecord(
        partition_id=0,
        topic_id=bytes.fromhex("7cc31be3d7f34b73bac4ffd3062fb56b"),
        isr=[],
        leader=-1,
        eligible_leader_replicas=[1],
        last_known_elr=[1],
    ),
}


@pytest.mark.parametrize(("cls", "text"), REQUESTS.items())
def test_requests_of_java_client_are_decoded(cls, text):
    frame = bytes.fromhex(text)
    header, pos = decode_request_header(frame)
    assert header.api_key == cls.KEY
    assert header.client_id == "adminclient-1"
    request = cls.decode(frame[pos:], header.api_version)
    again = encode_request(request, header.api_version, header.correlation_id, header.client_id)
    assert again == frame


def test_api_versions_names_the_client_software():
    frame = bytes.fromhex(REQUESTS[ApiVersionsRequest])
    request = ApiVersionsRequest.decode(frame[decode_request_header(frame)[1] :], 4)
    assert request == ApiVersionsRequest(
        client_software_name="apache-kafka-java", client_software_version="4.3.0"
    )


@pytest.mark.parametrize(("case", "text"), RESPONSES.items())
def test_responses_of_broker_are_decoded(case, text):
    cls, version = case
    frame = bytes.fromhex(text)
    correlation_id, pos = decode_response_header(frame, cls.KEY, version)
    assert correlation_id == 7
    response = cls.decode(frame[pos:], version)
    assert encode_response(response, version, 7) == frame


def test_captured_metadata_is_decoded_correctly():
    frame = bytes.fromhex(RESPONSES[MetadataResponse, 13])
    response = MetadataResponse.decode(frame[5:], 13)
    (broker,) = response.brokers
    (topic,) = response.topics
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "127.0.0.1", 29001, None)
    assert (topic.name, topic.topic_id) == ("orders", TOPIC_ID)
    assert [p.partition_index for p in topic.partitions] == [0, 1]
    assert [p.isr_nodes for p in topic.partitions] == [[1], [1]]


@pytest.mark.parametrize(("text", "record"), RECORDS.items())
def test_records_of_metadata_log_are_decoded(text, record):
    value = bytes.fromhex(text)
    assert decode_metadata_record(value) == record
    assert encode_metadata_record(record, value[2]) == value


def test_control_record_of_metadata_log_is_decoded():
    value = decode_control_value(ControlType.KRAFT_VERSION, bytes.fromhex("0000000100"))
    assert value == KRaftVersionRecord(version=0, kraft_version=1)

"""Bytes of znodes, as Apache Kafka 3.9.1 wrote them (ZooKeeper mode and dual-write)."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.checks import assert_only_raises
from trimaran.wire.buffers.primitives import uuid_from_text
from trimaran.wire.errors import RemoteProtocolError
from trimaran.zkcompat.znodes.broker_info import BrokerInfo, ListenerAddress
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.config_change import ConfigChangeNote
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.feature import FeatureZnode
from trimaran.zkcompat.znodes.json_form import (
    decode_json,
    encode_json,
    properties_order,
    scala_map_order,
)
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.znodes.names import config_entity, desanitize, sanitize
from trimaran.zkcompat.znodes.partition_state import PartitionStateZnode
from trimaran.zkcompat.znodes.producer_id_block import ProducerIdBlock
from trimaran.zkcompat.znodes.topic_assignment import TopicAssignment

PLAINTEXT = ListenerAddress("PLAINTEXT", "127.0.0.1", 25021, 0)
SASL = ListenerAddress("SASL", "127.0.0.1", 25041, 2)

GOLDEN = [
    (
        ClusterId("hnCWl1MhRtutIZ_PJ3lOTw"),
        ClusterId.decode,
        '{"version":"1","id":"hnCWl1MhRtutIZ_PJ3lOTw"}',
    ),
    (
        ControllerZnode(1, 1795221111852, -1),
        ControllerZnode.decode,
        '{"version":2,"brokerid":1,"timestamp":"1795221111852","kraftControllerEpoch":-1}',
    ),
    (
        ControllerZnode(3002, 1795221973502, 3),
        ControllerZnode.decode,
        '{"version":2,"brokerid":3002,"timestamp":"1795221973502","kraftControllerEpoch":3}',
    ),
    (ControllerEpochZnode(3), ControllerEpochZnode.decode, "3"),
    (
        BrokerInfo(1, (PLAINTEXT, SASL), "rack-1", 1795221000691),
        lambda data: BrokerInfo.decode(1, data),
        '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SASL":"SASL_PLAINTEXT"},'
        '"endpoints":["PLAINTEXT://127.0.0.1:25021","SASL://127.0.0.1:25041"],"rack":"rack-1","jmx_port":-1,'
        '"port":25021,"host":"127.0.0.1","version":5,"timestamp":"1795221000691"}',
    ),
    (
        BrokerInfo(
            7,
            (
                ListenerAddress("INSIDE", "broker-7.internal", 9092, 2),
                ListenerAddress("OUTSIDE", "kafka.example.org", 39094, 3),
            ),
            "r1",
            1795942826555,
        ),
        lambda data: BrokerInfo.decode(7, data),
        '{"features":{},"listener_security_protocol_map":{"INSIDE":"SASL_PLAINTEXT","OUTSIDE":"SASL_SSL"},'
        '"endpoints":["INSIDE://broker-7.internal:9092","OUTSIDE://kafka.example.org:39094"],"rack":"r1",'
        '"jmx_port":-1,"port":-1,"host":null,"version":5,"timestamp":"1795942826555"}',
    ),
    (
        BrokerInfo(1, (ListenerAddress("PLAINTEXT", "127.0.0.1", 29001, 0),), None, 1795229482567),
        lambda data: BrokerInfo.decode(1, data),
        '{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
        '"endpoints":["PLAINTEXT://127.0.0.1:29001"],"jmx_port":-1,"port":29001,"host":"127.0.0.1","version":5,'
        '"timestamp":"1795229482567"}',
    ),
    (
        TopicAssignment(uuid_from_text("5oVMpUrzT1aI9GRozJseLA"), {0: (3, 1, 2), 1: (1, 2, 3)}),
        TopicAssignment.decode,
        '{"partitions":{"0":[3,1,2],"1":[1,2,3]},"topic_id":"5oVMpUrzT1aI9GRozJseLA","adding_replicas":{},'
        '"removing_replicas":{},"version":3}',
    ),
    (
        TopicAssignment(
            uuid_from_text("13GA7QZ4Ro-U7XAhRmC31w"),
            {0: (1, 3, 2), 1: (2, 3)},
            {0: (3,)},
            {0: (2,)},
        ),
        TopicAssignment.decode,
        '{"partitions":{"0":[1,3,2],"1":[2,3]},"topic_id":"13GA7QZ4Ro-U7XAhRmC31w","adding_replicas":{"0":[3]},'
        '"removing_replicas":{"0":[2]},"version":3}',
    ),
    (
        PartitionStateZnode(3, 6, (1, 3, 2), 3),
        PartitionStateZnode.decode,
        '{"controller_epoch":3,"leader":3,"version":1,"leader_epoch":6,"isr":[1,3,2]}',
    ),
    (
        PartitionStateZnode(-1, 3, (2,), 3),
        PartitionStateZnode.decode,
        '{"controller_epoch":3,"leader":-1,"version":1,"leader_epoch":3,"isr":[2]}',
    ),
    (
        PartitionStateZnode(1, 4, (1,), 3, leader_recovery_state=1),
        PartitionStateZnode.decode,
        '{"controller_epoch":3,"leader":1,"version":1,"leader_recovery_state":1,"leader_epoch":4,"isr":[1]}',
    ),
    (
        EntityConfig({"retention.ms": "3600000", "segment.bytes": "1048576"}),
        EntityConfig.decode,
        '{"version":1,"config":{"retention.ms":"3600000","segment.bytes":"1048576"}}',
    ),
    (
        EntityConfig(
            {
                "segment.bytes": "104857600",
                "cleanup.policy": "compact",
                "compression.type": "producer",
            }
        ),
        EntityConfig.decode,
        '{"version":1,"config":{"compression.type":"producer","cleanup.policy":"compact","segment.bytes":"104857600"}}',
    ),
    (EntityConfig({}), EntityConfig.decode, '{"version":1,"config":{}}'),
    (
        ConfigChangeNote("brokers/<default>"),
        ConfigChangeNote.decode,
        '{"version":2,"entity_path":"brokers/<default>"}',
    ),
    (
        Migration(43, 3002, 3, 3),
        Migration.decode,
        '{"version":0,"kraft_metadata_offset":43,"kraft_controller_id":3002,"kraft_metadata_epoch":3,'
        '"kraft_controller_epoch":3}',
    ),
    (
        ProducerIdBlock(0, broker=1),
        ProducerIdBlock.decode,
        '{"version":1,"broker":1,"block_start":"0","block_end":"999"}',
    ),
    (FeatureZnode(), FeatureZnode.decode, '{"features":{},"version":2,"status":1}'),
]


@pytest.mark.parametrize(("znode", "decode", "text"), GOLDEN)
def test_znodes_have_kafkas_bytes(znode, decode, text):
    assert znode.encode() == text.encode()
    assert decode(text.encode()) == znode


@given(
    data=st.none()
    | st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "version",
                        "id",
                        "isr",
                        "leader",
                        "endpoints",
                        "partitions",
                        "config",
                        "timestamp",
                    ]
                )
                | st.text(max_size=5),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_bytes_decode_or_are_refused(data):
    for _, decode, _ in GOLDEN:
        assert_only_raises(RemoteProtocolError, partial(decode, data))


@pytest.mark.parametrize(
    ("decode", "text"),
    [
        (ControllerEpochZnode.decode, ""),
        (ControllerEpochZnode.decode, "-1"),
        (ControllerEpochZnode.decode, "99999999999"),
        (Migration.decode, '{"version":1}'),
        (Migration.decode, '{"version":0,"kraft_metadata_offset":"7"}'),
        (
            PartitionStateZnode.decode,
            '{"leader":1,"leader_epoch":true,"isr":[],"controller_epoch":1}',
        ),
        (
            PartitionStateZnode.decode,
            '{"leader":1,"leader_epoch":1,"isr":["a"],"controller_epoch":1}',
        ),
        (
            TopicAssignment.decode,
            '{"topic_id":"x","partitions":{},"adding_replicas":{},"removing_replicas":{}}',
        ),
        (EntityConfig.decode, '{"version":1,"config":[]}'),
        (ClusterId.decode, "[" * 5000),
        (ClusterId.decode, '{"id":"' + "x" * (1 << 20) + '"}'),
    ],
)
def test_damaged_znodes_are_refused(decode, text):
    with pytest.raises(RemoteProtocolError):
        decode(text.encode())


def test_dirty_migration_is_marked_and_readable_for_kafka():
    state = Migration(7, 1, 2, 3, dirty=True)
    assert Migration.decode(state.encode()) == state
    assert json.loads(state.encode())["kraft_metadata_offset"] == 7


def test_partitions_are_in_order_of_scalas_hash_map():
    # A topic of 20 partitions, read from a real cluster: the hash table was resized while they were added.
    assert scala_map_order(map(str, range(20))) == [
        *map(str, range(11, 20)), *map(str, range(11)),
    ]  # fmt: skip
    assert scala_map_order(map(str, range(12))) == ["11", *map(str, range(11))]


def test_configs_are_in_order_of_java_properties():
    # Read from a real cluster, except for the three keys that share a bucket: their order was that of insertion.
    assert properties_order(
        [
            "retention.ms", "segment.bytes", "cleanup.policy", "max.message.bytes", "flush.messages", "flush.ms",
            "segment.ms", "index.interval.bytes", "delete.retention.ms", "file.delete.delay.ms",
            "min.cleanable.dirty.ratio", "segment.jitter.ms", "preallocate", "retention.bytes", "message.timestamp.type",
        ]
    ) == [
        "file.delete.delay.ms", "max.message.bytes", "message.timestamp.type", "preallocate", "segment.jitter.ms",
        "index.interval.bytes", "min.cleanable.dirty.ratio", "delete.retention.ms", "retention.bytes", "cleanup.policy",
        "flush.ms", "retention.ms", "segment.bytes", "segment.ms", "flush.messages",
    ]  # fmt: skip


def test_json_escapes_as_jackson_does():
    assert encode_json({"k": 'a"\\\x1f\n\\u001f é'}) == (
        '{"k":"a\\"\\\\\\u001F\\n\\\\u001f é"}'.encode()
    )


@given(st.dictionaries(st.text(max_size=6), st.text(max_size=12), max_size=6))
def test_json_round_trips(value):
    assert decode_json(encode_json(value)) == value


@pytest.mark.parametrize(
    ("name", "znode"),
    [
        ("legacy app/1", "legacy%20app%2F1"),
        ("User:bob", "User%3Abob"),
        ("a*b~+", "a%2Ab%7E%2B"),
        ("é", "%C3%A9"),
    ],
)
def test_names_are_percent_encoded(name, znode):
    assert sanitize(name) == znode
    assert desanitize(znode) == name


def test_default_entity_has_a_name():
    assert config_entity("") == "<default>"
    assert config_entity("3") == "3"


def test_ipv6_hosts_are_in_brackets():
    info = BrokerInfo(1, (ListenerAddress("PLAINTEXT", "::1", 9092, 0),), None, 5)
    assert b"PLAINTEXT://[::1]:9092" in info.encode()
    assert BrokerInfo.decode(1, info.encode()) == info


def test_broker_without_plaintext_has_no_old_address():
    info = BrokerInfo(1, (SASL,), None, 5)
    members = json.loads(info.encode())
    assert (members["host"], members["port"]) == (None, -1)

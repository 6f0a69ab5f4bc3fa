"""Responses of DescribeConfigs: each value with its source and its synonyms, the required permissions, and invalid
resources.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from immutables import Map

from tests.broker.calls import call, carried_out, finished, through_wire
from tests.broker.rooms import NotedRoom
from tests.checks import check_each
from tests.cluster.data_side import config, partition, topic, topics_image
from trimaran.node.config.config_def import ConfigTypeId
from trimaran.node.config.config_source import ConfigSource
from trimaran.node.config.group_keys import GROUP_CONFIGS
from trimaran.node.config.loggers import logger_levels
from trimaran.node.config.topic_keys import TOPIC_CONFIGS
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.quorum.metadata.image import ConfigsImage, MetadataImage
from trimaran.quorum.serving.config_entries import ConfigDescription
from trimaran.quorum.serving.config_sources import NodeConfigLayers
from trimaran.quorum.serving.describe_configs import asked_once, describe_configs, fail_all
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

E = ErrorCode
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
NODE_ID = "11"
SET = {
    (TOPIC, "t"): {"retention.ms": "5", "cleanup.policy": "compact"},
    (TOPIC, "u"): {"retention.ms": "6", "flush.ms": "many"},
    (BROKER, NODE_ID): {
        "log.retention.ms": "7",
        "num.io.threads": "3",
        "listener.name.plaintext.max.connections": "08",
        "num.replica.fetchers": "many",
    },
    (BROKER, "12"): {"log.retention.ms": "8"},
    (BROKER, ""): {
        "log.retention.ms": "9",
        "message.max.bytes": "1000",
        "log.cleaner.threads": "2",
    },
    (METRICS, "m"): {"interval.ms": "60000"},
    (GROUP, "g"): {"consumer.session.timeout.ms": "50000"},
}
IN_FILE = {
    "log_retention_minutes": "4",
    "log_roll_hours": "2",
    "log_cleanup_policy": "compact",
    "a_plugin_key": "of a plug-in",
    "num_network_threads": "5",
    "ssl_keystore_password": "secret",
    "group_consumer_heartbeat_interval_ms": "6000",
}


def image(settings=SET):
    configs = ConfigsImage(Map({key: Map(value) for key, value in settings.items()}))
    topics = topics_image(topic("t", partition()), topic("u", partition()))
    return MetadataImage(topics=topics, configs=configs)


@dataclass
class Node:
    config: Any
    authorizer: Authorizer | None = None
    image: MetadataImage = field(default_factory=image)


def request(*asked, **options):
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
            )
            for kind, name, *keys in asked
        ],
        **options,
    )


async def described(*asked, version=4, authorizer=None, **options):
    """Returns results as a client reads them."""
    message = through_wire(request(*asked, **options), version)
    node = Node(config(**IN_FILE), authorizer)
    found = await finished(describe_configs(message, node, call(message, version)))
    return through_wire(found, version).results


async def one_of(kind, name, key, **options):
    (result,) = await described((kind, name, key), **options)
    (found,) = result.configs
    assert (found.name, result.error_code) == (key, 0)
    return found


# For each kind, resource and key: the value, its source, and whether it is read-only.
VALUES = {
    (TOPIC, "t", "retention.ms"): ("5", ConfigSource.TOPIC, False),
    (TOPIC, "u", "retention.ms"): ("6", ConfigSource.TOPIC, False),
    (TOPIC, "t", "cleanup.policy"): ("compact", ConfigSource.TOPIC, False),
    (TOPIC, "u", "cleanup.policy"): ("compact", ConfigSource.STATIC_BROKER, False),
    (TOPIC, "u", "message.timestamp.type"): ("CreateTime", ConfigSource.DEFAULT, False),
    # An invalid value, as a log from Kafka may contain.
    (TOPIC, "u", "flush.ms"): ("many", ConfigSource.TOPIC, False),
    (BROKER, NODE_ID, "num.replica.fetchers"): ("many", ConfigSource.DYNAMIC_BROKER, False),
    (BROKER, NODE_ID, "listener.name.plaintext.max.connections"): (
        *("08", ConfigSource.DYNAMIC_BROKER, True),  # unchanged, as it was set
    ),
    # From `log.roll.hours`: as in Kafka its source is reported only under its own name.
    (TOPIC, "t", "segment.ms"): ("7200000", ConfigSource.DEFAULT, False),
    (TOPIC, "t", "max.message.bytes"): ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER, False),
    (BROKER, NODE_ID, "log.retention.ms"): ("7", ConfigSource.DYNAMIC_BROKER, False),
    (BROKER, NODE_ID, "message.max.bytes"): ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER, False),
    (BROKER, NODE_ID, "num.network.threads"): ("5", ConfigSource.STATIC_BROKER, False),
    (BROKER, NODE_ID, "node.id"): ("11", ConfigSource.STATIC_BROKER, True),
    (BROKER, NODE_ID, "log.cleaner.backoff.ms"): ("15000", ConfigSource.DEFAULT, False),
    # Only for one listener, and yet not read-only, as in Kafka.
    (BROKER, NODE_ID, "ssl.keystore.type"): ("JKS", ConfigSource.DEFAULT, False),
    (BROKER, NODE_ID, "process.roles"): ("broker", ConfigSource.STATIC_BROKER, True),
    (BROKER, "", "log.retention.ms"): ("9", ConfigSource.DYNAMIC_DEFAULT_BROKER, False),
    (METRICS, "m", "interval.ms"): ("60000", ConfigSource.CLIENT_METRICS, False),
    (METRICS, "n", "interval.ms"): ("300000", ConfigSource.DEFAULT, False),
    (GROUP, "g", "consumer.session.timeout.ms"): ("50000", ConfigSource.GROUP, False),
    (GROUP, "h", "consumer.session.timeout.ms"): ("45000", ConfigSource.DEFAULT, False),
    (GROUP, "h", "consumer.heartbeat.interval.ms"): ("6000", ConfigSource.STATIC_BROKER, False),
}


async def test_each_value_has_its_source():
    found = {key: await one_of(*key) for key in VALUES}

    def check(row):
        key, expected = row
        one = found[key]
        assert (one.value, one.config_source, one.read_only) == expected
        assert (one.is_sensitive, one.synonyms, one.documentation) == (False, [], None)

    check_each(VALUES.items(), check)


SYNONYMS = {
    (TOPIC, "t", "retention.ms"): [
        ("retention.ms", "5", ConfigSource.TOPIC),
        ("log.retention.ms", "7", ConfigSource.DYNAMIC_BROKER),
        ("log.retention.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("log.retention.minutes", "4", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    ],
    (BROKER, "", "log.retention.ms"): [
        ("log.retention.ms", "9", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    ],
    (METRICS, "m", "interval.ms"): [("interval.ms", "60000", ConfigSource.CLIENT_METRICS)],
    (METRICS, "n", "interval.ms"): [],
    (GROUP, "g", "consumer.session.timeout.ms"): [
        ("consumer.session.timeout.ms", "50000", ConfigSource.GROUP),
        ("group.consumer.session.timeout.ms", "45000", ConfigSource.DEFAULT),
    ],
}


async def test_synonyms_are_listed_by_precedence():
    found = {key: await one_of(*key, include_synonyms=True) for key in SYNONYMS}

    def check(row):
        key, expected = row
        told = [(synonym.name, synonym.value, synonym.source) for synonym in found[key].synonyms]
        assert told == expected

    check_each(SYNONYMS.items(), check)


async def test_secret_is_never_described():
    key = "ssl.keystore.password"
    found = await one_of(BROKER, NODE_ID, key, include_synonyms=True)
    assert (found.value, found.is_sensitive) == (None, True)
    assert [synonym.value for synonym in found.synonyms] == [None]


async def test_undeclared_configs_are_treated_as_secrets():
    found = await one_of(BROKER, NODE_ID, "a.plugin.key", include_documentation=True)
    assert (found.value, found.is_sensitive, found.read_only) == (None, True, True)
    assert (found.config_source, found.config_type) == (
        ConfigSource.STATIC_BROKER,
        ConfigTypeId.UNKNOWN,
    )
    assert found.documentation is None
    (broker,) = await described((BROKER, NODE_ID))
    last = [config.name for config in broker.configs][-2:]
    assert last == ["a.plugin.key", "listener.name.plaintext.max.connections"]


async def test_listener_config_uses_documentation_of_node_config():
    key = "listener.name.plaintext.max.connections"
    found = await one_of(BROKER, NODE_ID, key, include_documentation=True)
    assert (found.documentation, found.config_type) == (None, ConfigTypeId.INT)


def test_new_topic_inherits_hours_and_minutes_as_milliseconds():
    """Kafka does the same, and reads a malformed number as 0."""
    for hours, expected in (("3", "10800000"), ("some", "0")):
        altered = {(BROKER, ""): {"log.roll.hours": hours}}
        description = ConfigDescription(
            config(), image(altered).configs, synonyms=False, documentation=False
        )
        (found,) = description.created_topic({}, ["segment.ms"])
        assert found == ("segment.ms", expected, ConfigSource.DYNAMIC_DEFAULT_BROKER)


async def test_altered_config_replaces_its_synonyms_in_file():
    """This holds although the synonym in the file takes precedence."""
    altered = {(BROKER, ""): {"log.retention.minutes": "3"}}
    description = ConfigDescription(
        config(log_retention_ms="1000"), image(altered).configs, synonyms=False, documentation=False
    )
    (found,) = description.topic("t", ["retention.ms"])
    assert found.value == "180000"


async def test_documentation_and_types_are_returned_on_request():
    for kind, name, key, of_type in (
        (TOPIC, "t", "retention.ms", ConfigTypeId.LONG),
        (BROKER, NODE_ID, "num.io.threads", ConfigTypeId.INT),
        (TOPIC, "t", "cleanup.policy", ConfigTypeId.LIST),
    ):
        plain = await one_of(kind, name, key)
        told = await one_of(kind, name, key, include_documentation=True)
        assert plain.documentation is None
        assert len(told.documentation) > 20
        assert (plain.config_type, told.config_type) == (of_type, of_type)


async def test_all_present_configs_are_described_without_names():
    (topics, nothing, group, default) = await described(
        (TOPIC, "t"), (TOPIC, "u", "no.such.key"), (GROUP, "g"), (BROKER, "")
    )
    assert [config.name for config in topics.configs] == [
        key.name for key in TOPIC_CONFIGS.values()
    ]
    assert nothing.configs == []
    assert [config.name for config in group.configs] == [
        key.name for key in GROUP_CONFIGS.values() if not key.internal
    ]
    names = [config.name for config in default.configs]
    assert names == ["log.cleaner.threads", "log.retention.ms", "message.max.bytes"]
    (broker,) = await described((BROKER, NODE_ID))
    names = [config.name for config in broker.configs]
    assert len(set(names)) == len(names)
    assert {"log.retention.ms", "node.id", "num.io.threads"} <= set(names)
    assert not [name for name in names if name.startswith("zookeeper.")]


async def test_loggers_have_their_levels():
    (all_of_them, one) = await described((LOGGER, NODE_ID), (LOGGER, NODE_ID, "root"))
    levels = {found.name: found.value for found in all_of_them.configs}
    assert levels == logger_levels()
    assert [found.name for found in one.configs] == [name for name in levels if name == "root"]
    first = all_of_them.configs[0]
    assert (first.config_source, first.read_only, first.is_sensitive) == (6, False, False)
    assert (first.config_type, first.documentation) == (ConfigTypeId.UNKNOWN, "")


async def test_version_0_has_is_default_without_source():
    own = await one_of(TOPIC, "t", "retention.ms", version=0)
    other = await one_of(TOPIC, "u", "message.timestamp.type", version=0)
    assert (own.is_default, other.is_default) == (False, True)


REFUSED = {
    (TOPIC, "a/b"): (E.INVALID_TOPIC_EXCEPTION, "Topic name is invalid"),
    (TOPIC, "nowhere"): (E.UNKNOWN_TOPIC_OR_PARTITION, ""),
    (BROKER, "12"): (E.INVALID_REQUEST, "expected 11 or empty string, but received 12"),
    (BROKER, "x"): (E.INVALID_REQUEST, "Broker id must be an integer, but it is: x"),
    (LOGGER, ""): (E.INVALID_REQUEST, "Broker id must not be empty"),
    (LOGGER, "12"): (E.INVALID_REQUEST, "expected 11 but received 12"),
    (METRICS, ""): (E.INVALID_REQUEST, "Client metrics subscription name must not be empty"),
    (GROUP, ""): (E.INVALID_REQUEST, "Group name must not be empty"),
}


async def test_invalid_resource_is_refused_alone():
    results = await described(*REFUSED, (TOPIC, "t", "retention.ms"))
    *refused, last = results
    assert [(result.resource_type, result.resource_name) for result in refused] == list(REFUSED)

    def check(row):
        result, (code, why) = row
        assert (result.error_code, result.configs) == (code, [])
        assert why in result.error_message if why else result.error_message == ""

    check_each(zip(refused, REFUSED.values(), strict=True), check)
    assert (last.error_code, last.error_message, len(last.configs)) == (0, "", 1)


@pytest.mark.parametrize("kind", [0, 1, 3, 5, 64])
async def test_unsupported_resource_type_refuses_the_request(kind):
    with pytest.raises(KafkaError) as caught:
        await described((TOPIC, "t"), (kind, "x"))
    assert caught.value.code == E.INVALID_REQUEST
    assert f"Unexpected resource type {kind} for resource x" in str(caught.value)


RIGHTS = {
    (TOPIC, "t"): (ResourceType.TOPIC, "t", E.TOPIC_AUTHORIZATION_FAILED),
    (GROUP, "g"): (ResourceType.GROUP, "g", E.GROUP_AUTHORIZATION_FAILED),
    (BROKER, NODE_ID): (ResourceType.CLUSTER, CLUSTER_NAME, E.CLUSTER_AUTHORIZATION_FAILED),
    (LOGGER, NODE_ID): (ResourceType.CLUSTER, CLUSTER_NAME, E.CLUSTER_AUTHORIZATION_FAILED),
    (METRICS, "m"): (ResourceType.CLUSTER, CLUSTER_NAME, E.CLUSTER_AUTHORIZATION_FAILED),
}


def allowing(kind, name, operation):
    authorizer = Authorizer()
    authorizer.complete_initial_load()
    authorizer._index.add(
        Acl(kind, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, Permission.ALLOW)
    )
    return authorizer


async def test_describing_configs_needs_describe_configs_on_resource():
    """Neither DESCRIBE nor the permission to alter them suffices, nor a permission on another resource."""
    for resource, (kind, name, code) in RIGHTS.items():
        for operation, is_enough in (
            (Operation.DESCRIBE_CONFIGS, True),
            (Operation.ALTER_CONFIGS, True),  # as in Kafka, it implies DESCRIBE_CONFIGS
            (Operation.DESCRIBE, False),
            (Operation.READ, False),
        ):
            rights = allowing(kind, name, operation)
            (result,) = await described(resource, authorizer=rights)
            expected = E.NONE if is_enough else code
            assert result.error_code == expected, (resource, operation)
        others = allowing(kind, "other", Operation.DESCRIBE_CONFIGS)
        (result,) = await described(resource, authorizer=others)
        assert (result.error_code, result.configs) == (code, [])


def test_repeated_resource_is_described_once_with_merged_keys():
    asked = request(
        (TOPIC, "t", "b", "a"), (TOPIC, "u"), (TOPIC, "t", "a", "c"), (GROUP, "t", "x"),
        (TOPIC, "u", "a"), (GROUP, "g", "x"), (GROUP, "g"),
    )  # fmt: skip
    asked.resources[3].configuration_keys = []
    found = [
        (resource.resource_type, resource.resource_name, resource.configuration_keys)
        for resource in asked_once(asked).resources
    ]
    assert found == [
        (TOPIC, "t", ["b", "a", "c"]),
        (TOPIC, "u", None),
        (GROUP, "t", None),
        (GROUP, "g", None),
    ]


def test_early_failure_is_reported_for_each_resource():
    failed = fail_all(request((TOPIC, "t"), (BROKER, "11")), E.NOT_CONTROLLER, "another one")
    found = [
        (
            result.resource_type,
            result.resource_name,
            result.error_code,
            result.error_message,
            result.configs,
        )
        for result in through_wire(failed, 4).results
    ]
    code = E.NOT_CONTROLLER
    assert found == [(TOPIC, "t", code, "another one", []), (BROKER, "11", code, "another one", [])]


def test_new_topic_lists_own_then_node_configs():
    description = ConfigDescription(
        config(**IN_FILE), image().configs, synonyms=False, documentation=False
    )
    created = {entry.name: entry[1:] for entry in description.created_topic({"segment.ms": "77"})}
    assert set(created) == set(TOPIC_CONFIGS)
    expected = {
        "segment.ms": ("77", ConfigSource.TOPIC),
        "retention.ms": ("7", ConfigSource.DYNAMIC_BROKER),
        "max.message.bytes": ("1000", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        "cleanup.policy": ("compact", ConfigSource.STATIC_BROKER),
        "message.timestamp.type": ("CreateTime", ConfigSource.DEFAULT),
    }
    assert {name: created[name] for name in expected} == expected
    own = description.created_topic({}, ["segment.ms", "retention.ms"])
    assert sorted((entry.name, *entry[1:]) for entry in own) == [
        ("retention.ms", "7", ConfigSource.DYNAMIC_BROKER),
        ("segment.ms", "7200000", ConfigSource.STATIC_BROKER),
    ]


def test_undeclared_configs_follow_the_declared_ones():
    keys = {f"{letter}_plugin_key": letter for letter in "zxywvutsrqponmlkjihgfedcba"}
    description = ConfigDescription(
        config(**keys), ConfigsImage(), synonyms=False, documentation=False
    )
    names = [entry.name for entry in description.broker(None)]
    assert names[-26:] == [f"{letter}.plugin.key" for letter in "abcdefghijklmnopqrstuvwxyz"]
    assert len(set(names)) == len(names)


def test_listener_values_do_not_replace_node_values():
    own = {(BROKER, NODE_ID): {"listener.name.plaintext.max.connections": "8"}}
    configs = ConfigsImage(Map({key: Map(value) for key, value in own.items()}))
    settings = NodeConfigLayers(config(max_connections="7"), configs)
    assert settings.value("max.connections") == "7"
    assert settings.value("listener.name.plaintext.max.connections") == "8"


def test_internal_configs_appear_as_set_without_default():
    key = "log.initial.task.delay.ms"
    for value, expected in (("007", "007"), (None, None)):
        given = {} if value is None else {key.replace(".", "_"): value}
        assert NodeConfigLayers(config(**given), ConfigsImage()).value(key) == expected
    assert (
        NodeConfigLayers(config(num_io_threads="007"), ConfigsImage()).value("num.io.threads")
        == "7"
    )


@pytest.mark.parametrize("of_node", [True, False])
def test_internal_group_configs_appear_if_set(of_node):
    key = "consumer.assignor.offload.enable"
    file = {"group_consumer_assignor_offload_enable": "false"} if of_node else {}
    groups = ConfigsImage(Map({(GROUP, "g"): Map({key: "true"})}))
    description = ConfigDescription(config(**file), groups, synonyms=False, documentation=False)
    found = {name: {c.name: c.value for c in description.group(name, None)} for name in "gh"}
    assert found["g"][key] == "true"
    assert found["h"].get(key) == ("false" if of_node else None)
    assert "streams.num.warmup.replicas" not in found["g"]


class Judging(Authorizer):
    """An authorizer that records its calls in `room`."""

    room: Any = None

    def judge(self, *asked):
        self.room.noted.append(("judged", asked[2].resource_name))
        return super().judge(*asked)


async def test_memory_is_reserved_between_authorization_and_work():
    authorizer = Judging(["User:ANONYMOUS"])
    authorizer.complete_initial_load()
    message = through_wire(request((TOPIC, "t"), (BROKER, NODE_ID), (GROUP, "g")), 4)
    asked = call(message, 4)
    authorizer.room = room = NotedRoom(asked)
    effects = []
    node = Node(config(**IN_FILE), authorizer)
    found = await carried_out(describe_configs(message, node, asked), effects)
    assert len(found.results) == 3
    item = ("item", "configs")
    assert room.noted == [
        *[("judged", "t"), ("expect", 40 << 10), item],
        *[("judged", CLUSTER_NAME), ("expect", 400 << 10), item],
        *[("judged", "g"), ("expect", 0), item],
    ]
    configs = [len(result.configs) for result in through_wire(found, 4).results]
    # Before each resource, after it, and after each of its configs.
    assert effects == [None] * (sum(configs) + 2 * 3)

"""DescribeConfigs on a broker: values with their sources, and never a secret."""

import pytest

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.configs import (
    BROKER,
    GROUP,
    METRICS,
    TOPIC,
    described,
    description,
    incremental,
)
from trimaran.wire.errors import ErrorCode

OF_TOPIC, OF_CLUSTER, OF_METRICS, OF_GROUP = 1, 3, 7, 8


async def test_every_config_has_its_source(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        node = str(one.broker.node_id)
        await one.call(
            incremental(
                (TOPIC, "t", {"retention.ms": "5"}),
                (BROKER, "", {"log.retention.ms": "7200000"}),
                (METRICS, "m", {"interval.ms": "60000"}),
                (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
            )
        )
        await one.seen(lambda image: image.configs.of(GROUP, "g"))
        for kind, name, key, value, source in (
            (TOPIC, "t", "retention.ms", "5", OF_TOPIC),
            (BROKER, node, "log.retention.ms", "7200000", OF_CLUSTER),
            (METRICS, "m", "interval.ms", "60000", OF_METRICS),
            (GROUP, "g", "consumer.session.timeout.ms", "50000", OF_GROUP),
        ):
            found = (await described(one, kind, name, key))[key]
            assert (found.value, found.config_source) == (value, source)
        group = await described(one, GROUP, "g")
        assert group["consumer.heartbeat.interval.ms"].value == "5000"


async def test_secret_value_is_never_returned(tmp_path):
    """mA11."""
    key = "listener.name.plaintext.ssl.keystore.password"
    async with broker_client(tmp_path) as one:
        node = str(one.broker.node_id)
        await one.call(incremental((BROKER, node, {key: "secret"})))
        await one.seen(lambda image: image.configs.of(BROKER, node))
        found = (await described(one, BROKER, node, key))[key]
        assert (found.value, found.is_sensitive) == (None, True)


@pytest.mark.parametrize("changed", [False, True])
async def test_version_0_reports_only_is_default(tmp_path, changed):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        if changed:
            await one.call(incremental((TOPIC, "t", {"retention.ms": "5"})))
            await one.seen(lambda image: image.configs.of(TOPIC, "t"))
        answer = await one.call(description(TOPIC, "t", "retention.ms"), 0)
        assert [config.is_default for config in answer.results[0].configs] == [not changed]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a/b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "77", ErrorCode.INVALID_REQUEST),
        (5, "x", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_missing_resource_is_refused(tmp_path, kind, name, code):
    async with broker_client(tmp_path) as one:
        (result,) = (await one.call(description(kind, name))).results
        assert (result.error_code, result.configs) == (code, [])


async def test_undeclared_config_is_stored_but_hidden(tmp_path):
    """KafkaJS' test case 03 sets an interval of its own reporter, and a topic's key for a broker."""
    async with broker_client(tmp_path) as one:
        node = str(one.broker.node_id)
        for name in ("my.reporter.interval.ms", "cleanup.policy"):
            answer = await one.call(incremental((BROKER, node, {name: "5"})))
            assert answer.responses[0].error_code == ErrorCode.NONE
            await one.seen(lambda image: name in image.configs.of(BROKER, node))  # noqa: B023
            found = (await described(one, BROKER, node, name))[name]
            assert (found.value, found.is_sensitive, found.config_source) == (None, True, 2)


async def test_node_names_itself_by_both_ids(tmp_path):
    async with broker_client(tmp_path) as one:
        node = str(one.broker.node_id)
        found = await described(one, BROKER, node, "broker.id", "node.id")
        assert {(of.value, of.config_source) for of in found.values()} == {(node, 4)}

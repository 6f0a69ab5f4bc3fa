"""DescribeConfigs on a controller: topics, this node, and all brokers together."""

import pytest

from tests.broker.handlers.configs import BROKER, LOGGER, TOPIC, description, incremental
from tests.quorum.controller.handlers.controller_client import controller_client
from trimaran.wire.errors import ErrorCode


async def test_topic_config_has_its_source(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        await one.call(incremental((TOPIC, "t", {"retention.ms": "5"})))
        (result,) = (await one.call(description(TOPIC, "t", "retention.ms"))).results
        (found,) = result.configs
        assert (found.value, found.config_source) == ("5", 1)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "1", ErrorCode.NONE),  # the controller itself
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (LOGGER, "1", ErrorCode.NONE),
    ],
)
async def test_controller_describes_only_itself_and_its_loggers(tmp_path, kind, name, code):
    async with controller_client(tmp_path) as one:
        (result,) = (await one.call(description(kind, name))).results
        assert result.error_code == code
        assert bool(result.configs) == (code is ErrorCode.NONE)

"""IncrementalAlterConfigs on the controller: configs in the log, and this controller's own log levels."""

import logging

from tests.broker.handlers.configs import GROUP, LOGGER, TOPIC
from tests.broker.handlers.configs import incremental as altered
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.wire.errors import ErrorCode


async def test_configs_are_changed_one_by_one(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        for key, value in (("retention.ms", "5"), ("segment.ms", "7")):
            answer = await one.call(altered((TOPIC, "t", {key: value})))
            assert answer.responses[0].error_code == 0
        assert dict(one.image.configs.of(TOPIC, "t")) == {"retention.ms": "5", "segment.ms": "7"}


async def test_log_levels_apply_to_receiving_controller(tmp_path):
    name = "tests.of.a.controllers.levels"
    logger = logging.getLogger(name)
    async with controller_client(tmp_path) as one:
        answer = await one.call(altered((LOGGER, "1", {name: "ERROR"})))
        assert answer.responses[0].error_code == 0
        assert logger.level == logging.ERROR
        answer = await one.call(altered((LOGGER, "2", {name: "DEBUG"})))
        assert answer.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert logger.level == logging.ERROR
    logger.setLevel(logging.NOTSET)


async def test_unauthorized_client_alters_no_configs(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        resources = (TOPIC, "t", {"retention.ms": "5"}), (GROUP, "g", {}), (LOGGER, "1", {})
        answer = await one.call(altered(*resources))
        assert {r.resource_name: r.error_code for r in answer.responses} == {
            "t": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "g": ErrorCode.GROUP_AUTHORIZATION_FAILED,
            "1": ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        }

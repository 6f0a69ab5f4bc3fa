"""IncrementalAlterConfigs through a broker: every kind of resource, and log levels, which apply to this process."""

import logging

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from tests.broker.handlers.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC, described
from tests.broker.handlers.configs import incremental as altered
from trimaran.wire.errors import ErrorCode


async def test_configs_of_every_resource_type_are_altered(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        node = str(one.broker.node_id)
        answer = await one.call(
            altered(
                (TOPIC, "t", {"retention.ms": "5"}),
                (BROKER, "", {"log.retention.ms": "7200000"}),
                (BROKER, node, {"listener.name.plaintext.ssl.keystore.password": "secret"}),
                (METRICS, "m", {"interval.ms": "60000"}),
                (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
                (BROKER, "77", {"log.retention.ms": "1"}),
                (5, "x", {}),
            )
        )
        assert {r.resource_name: r.error_code for r in answer.responses} == {
            "t": 0,
            "": 0,
            node: 0,
            "m": 0,
            "g": 0,
            "77": ErrorCode.INVALID_REQUEST,
            "x": ErrorCode.INVALID_REQUEST,
        }
        changed = {(TOPIC, "t"), (BROKER, ""), (BROKER, node), (METRICS, "m"), (GROUP, "g")}
        await one.seen(lambda image: changed <= set(image.configs.by_resource))


async def test_other_configs_stay(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        for key, value in (("retention.ms", "5"), ("segment.ms", "7")):
            answer = await one.call(altered((TOPIC, "t", {key: value})))
            assert answer.responses[0].error_code == 0
        both = {"retention.ms": "5", "segment.ms": "7"}
        await one.seen(lambda image: dict(image.configs.of(TOPIC, "t")) == both)


async def test_log_levels_apply_to_this_process_only(tmp_path):
    name = "tests.of.log.levels"
    logger = logging.getLogger(name)
    async with broker_client(tmp_path) as one:
        node = str(one.broker.node_id)
        answer = await one.call(altered((LOGGER, node, {name: "ERROR"}), validate_only=True))
        assert (answer.responses[0].error_code, logger.level) == (0, logging.NOTSET)
        await one.call(altered((LOGGER, node, {name: "ERROR"})))
        assert logger.level == logging.ERROR
        assert (await described(one, LOGGER, node))[name].value == "ERROR"
        for key, value in ((name, "LOUD"), ("no.such.logger", "INFO")):
            answer = await one.call(altered((LOGGER, node, {key: value})))
            assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
    logger.setLevel(logging.NOTSET)


async def test_refusal_is_returned_for_every_resource(tmp_path):
    request = altered((TOPIC, "t", {}), (TOPIC, "u", {}))
    answer = await refusal_by_controller(tmp_path, request, 1)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    found = [(r.resource_name, r.error_code) for r in answer.responses]
    assert found == [("t", code), ("u", code)]

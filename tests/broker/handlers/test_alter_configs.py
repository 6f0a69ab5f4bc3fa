"""AlterConfigs through a broker: the older request, which replaces all configs of a resource."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from tests.broker.handlers.configs import GROUP, TOPIC, incremental, replacing
from trimaran.wire.errors import ErrorCode


async def test_unnamed_configs_return_to_their_defaults(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.call(incremental((GROUP, "g", {"share.delivery.count.limit": "4"})))
        expected = {"share.auto.offset.reset": "earliest"}
        answer = await one.call(replacing((GROUP, "g", expected)))
        assert [r.error_code for r in answer.responses] == [0]
        await one.seen(lambda image: dict(image.configs.of(GROUP, "g")) == expected)


async def test_resource_named_twice_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        change = (GROUP, "g", {"share.auto.offset.reset": "earliest"})
        answer = await one.call(replacing(change, change))
        assert {r.error_code for r in answer.responses} == {ErrorCode.INVALID_REQUEST}
        assert not one.image.configs.of(GROUP, "g")


async def test_invalid_value_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        answer = await one.call(replacing((TOPIC, "t", {"retention.ms": "long"})))
        assert [r.error_code for r in answer.responses] == [ErrorCode.INVALID_CONFIG]


async def test_refusal_is_returned_for_every_resource(tmp_path):
    answer = await refusal_by_controller(tmp_path, replacing((TOPIC, "t", {})), 2)
    found = [(r.resource_name, r.error_code) for r in answer.responses]
    assert found == [("t", ErrorCode.CLUSTER_AUTHORIZATION_FAILED)]

"""ListConfigResources: the resources that have configs."""

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.configs import BROKER, GROUP, LOGGER, METRICS, TOPIC, incremental
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.list_config_resources import ListConfigResourcesRequest


async def listed(one, *kinds, version=1):
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = await one.call(request, version)
    assert answer.error_code == 0
    return {(r.resource_type, r.resource_name) for r in answer.config_resources}


async def test_resources_are_listed_by_kind(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t")
        node = str(one.broker.node_id)
        await one.call(
            incremental(
                (METRICS, "m", {"interval.ms": "60000"}),
                (GROUP, "g", {"consumer.session.timeout.ms": "50000"}),
            )
        )
        await one.seen(lambda image: image.configs.of(GROUP, "g"))
        assert await listed(one) == {
            (TOPIC, "t"),
            (BROKER, node),
            (LOGGER, node),
            (METRICS, "m"),
            (GROUP, "g"),
        }
        assert await listed(one, TOPIC, GROUP) == {(TOPIC, "t"), (GROUP, "g")}


async def test_version_0_lists_only_client_metrics(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.call(incremental((METRICS, "m", {"interval.ms": "60000"})))
        await one.seen(lambda image: image.configs.of(METRICS, "m"))
        request = ListConfigResourcesRequest(resource_types=[])
        answer = await one.call(request, 0)
        assert [r.resource_name for r in answer.config_resources] == ["m"]


async def test_unknown_kind_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(ListConfigResourcesRequest(resource_types=[7]))
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION

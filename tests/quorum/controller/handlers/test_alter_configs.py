"""AlterConfigs on the controller: the older API, which replaces all configs of a resource."""

from tests.broker.handlers.configs import TOPIC, incremental, replacing
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.wire.errors import ErrorCode


async def test_unnamed_configs_return_to_their_defaults(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        await one.call(incremental((TOPIC, "t", {"retention.ms": "5"})))
        answer = await one.call(replacing((TOPIC, "t", {"segment.ms": "7"})))
        assert [r.error_code for r in answer.responses] == [0]
        assert dict(one.image.configs.of(TOPIC, "t")) == {"segment.ms": "7"}


async def test_validate_only_alters_nothing(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        request = replacing((TOPIC, "t", {"segment.ms": "7"}), validate_only=True)
        assert (await one.call(request)).responses[0].error_code == 0
        assert not one.image.configs.of(TOPIC, "t")


async def test_unauthorized_client_alters_no_configs(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        answer = await one.call(replacing((TOPIC, "t", {"segment.ms": "7"})))
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert [r.error_code for r in answer.responses] == [code]

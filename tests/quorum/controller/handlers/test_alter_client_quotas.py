"""AlterClientQuotas on the controller."""

from tests.broker.handlers.test_alter_client_quotas import alteration
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_client_quotas import AlterClientQuotasRequest


async def test_quota_is_set_and_removed(tmp_path):
    async with controller_client(tmp_path) as one:
        assert (await one.call(alteration())).entries[0].error_code == 0
        assert [(quota.key, quota.value) for quota in one.image.quotas.values()] == [
            ("producer_byte_rate", 7.0)
        ]
        await one.call(alteration(remove=True))
        assert not one.image.quotas


async def test_request_without_entries_succeeds(tmp_path):
    async with controller_client(tmp_path) as one:
        answer = await one.call(AlterClientQuotasRequest(entries=[], validate_only=False))
        assert answer.entries == []


async def test_unauthorized_client_is_refused_for_every_entity(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        (entry,) = (await one.call(alteration())).entries
        assert entry.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

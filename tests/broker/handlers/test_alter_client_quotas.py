"""AlterClientQuotas through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)


def alteration(value=7.0, *, key="producer_byte_rate", remove=False, validate_only=False):
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="user", entity_name="alice")],
        ops=[OpData(key=key, value=value, remove=remove)],
    )
    return AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)


async def test_quota_is_added_and_removed(tmp_path):
    async with broker_client(tmp_path) as one:
        tried = await one.call(alteration(validate_only=True))
        assert (tried.entries[0].error_code, len(one.image.quotas)) == (0, 0)
        assert (await one.call(alteration())).entries[0].error_code == 0
        await one.seen(lambda image: len(image.quotas) == 1)
        await one.call(alteration(remove=True))
        await one.seen(lambda image: not image.quotas)


async def test_unknown_quota_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        (entry,) = (await one.call(alteration(key="bytes_of_air"))).entries
        assert entry.error_code == ErrorCode.INVALID_REQUEST


async def test_refusal_is_returned_for_every_entity(tmp_path):
    (entry,) = (await refusal_by_controller(tmp_path, alteration(), 1)).entries
    assert entry.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert entry.entity[0].entity_name == "alice"

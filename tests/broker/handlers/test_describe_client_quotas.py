"""DescribeClientQuotas: answered by a filter from the broker's own metadata."""

from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.test_alter_client_quotas import alteration
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest


def described(*components):
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=False,
    )


async def test_quotas_matching_filter_are_described(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.call(alteration(7.0))
        await one.seen(lambda image: len(image.quotas) == 1)
        for wanted, found in (
            (described(), [7.0]),
            (described(("user", 0, "alice")), [7.0]),
            (described(("user", 0, "bob")), []),
        ):
            answer = await one.call(wanted)
            assert [v.value for entry in answer.entries for v in entry.values] == found


async def test_invalid_filter_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        twice = await one.call(described(("user", 2, None), ("user", 2, None)))
        assert twice.error_code == ErrorCode.INVALID_REQUEST
        strange = await one.call(described(("planet", 2, None)))
        assert strange.error_code == ErrorCode.UNSUPPORTED_VERSION

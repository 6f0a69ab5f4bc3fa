"""DeleteAcls through a broker: matches of a filter are deleted and returned."""

from tests.broker.handlers import acls
from tests.broker.handlers.broker_client import AUTHORIZER, broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode


async def test_acls_matching_filter_are_deleted(tmp_path):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        await one.call(acls.creation("orders"))
        await one.call(acls.creation("bills"))
        wanted = acls.deletion()
        wanted.filters[0].resource_name_filter = "orders"
        (result,) = (await one.call(wanted)).filter_results
        assert [acl.resource_name for acl in result.matching_acls] == ["orders"]
        await one.seen(lambda image: len(image.acls) == 1)


async def test_acls_are_refused_without_authorizer(tmp_path):
    async with broker_client(tmp_path) as one:
        (result,) = (await one.call(acls.deletion())).filter_results
        assert (result.error_code, result.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured.",
        )


async def test_refusal_is_returned_for_every_filter(tmp_path):
    answer = await refusal_by_controller(tmp_path, acls.deletion(), 3)
    codes = [result.error_code for result in answer.filter_results]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]

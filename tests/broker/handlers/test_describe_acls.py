"""DescribeAcls: answered from the broker's own metadata."""

from tests.broker.handlers import acls
from tests.broker.handlers.broker_client import AUTHORIZER, broker_client
from trimaran.wire.errors import ErrorCode


async def test_acls_are_listed_by_resource(tmp_path):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        await one.call(acls.creation("orders"))
        await one.call(acls.creation("bills"))
        await one.seen(lambda image: len(image.acls) == 2)
        answer = await one.call(acls.description())
        found = {r.resource_name: [acl.principal for acl in r.acls] for r in answer.resources}
        assert found == {"orders": ["User:alice"], "bills": ["User:alice"]}
        only = acls.description().replace(resource_name_filter="bills")
        assert [r.resource_name for r in (await one.call(only)).resources] == ["bills"]


async def test_acls_are_refused_without_authorizer(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(acls.description())
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured on the broker",
        )

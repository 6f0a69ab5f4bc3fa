"""DescribeAcls on a controller."""

from tests.broker.handlers import acls
from tests.quorum.controller.handlers.controller_client import NOBODY, SUPER_USER, controller_client
from trimaran.wire.errors import ErrorCode


async def test_acls_are_listed_by_resource(tmp_path):
    async with controller_client(tmp_path, **SUPER_USER) as one:
        await one.call(acls.creation("orders"))
        answer = await one.call(acls.description())
        (resource,) = answer.resources
        assert (resource.resource_name, len(resource.acls)) == ("orders", 1)


async def test_acl_request_without_authorizer_is_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        answer = await one.call(acls.description())
        assert answer.error_code == ErrorCode.SECURITY_DISABLED


async def test_unauthorized_client_sees_no_acls(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        answer = await one.call(acls.description())
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

"""DeleteAcls on the controller."""

from tests.broker.handlers import acls
from tests.quorum.controller.handlers.controller_client import NOBODY, SUPER_USER, controller_client
from trimaran.wire.errors import ErrorCode


async def test_acls_matching_filter_are_deleted(tmp_path):
    async with controller_client(tmp_path, **SUPER_USER) as one:
        await one.call(acls.creation("orders"))
        (result,) = (await one.call(acls.deletion())).filter_results
        assert [acl.resource_name for acl in result.matching_acls] == ["orders"]
        assert not one.image.acls
        (again,) = (await one.call(acls.deletion())).filter_results
        assert (again.error_code, again.matching_acls) == (0, [])


async def test_acl_request_without_authorizer_is_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        (result,) = (await one.call(acls.deletion())).filter_results
        assert result.error_code == ErrorCode.SECURITY_DISABLED


async def test_unauthorized_client_deletes_no_acls(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        (result,) = (await one.call(acls.deletion())).filter_results
        assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

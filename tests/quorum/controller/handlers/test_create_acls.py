"""CreateAcls on the controller."""

from tests.broker.handlers import acls
from tests.quorum.controller.handlers.controller_client import NOBODY, SUPER_USER, controller_client
from trimaran.wire.errors import ErrorCode


async def test_acl_is_recorded_once(tmp_path):
    async with controller_client(tmp_path, **SUPER_USER) as one:
        for _ in range(2):
            assert (await one.call(acls.creation())).results[0].error_code == 0
        assert len(one.image.acls) == 1


async def test_acl_request_without_authorizer_is_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        (result,) = (await one.call(acls.creation())).results
        assert result.error_code == ErrorCode.SECURITY_DISABLED


async def test_unauthenticated_client_creates_no_acls(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        (result,) = (await one.call(acls.creation())).results
        assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert not one.image.acls

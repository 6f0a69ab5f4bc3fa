"""CreateAcls through a broker: the controller commits the ACL, and every broker applies it."""

from tests.broker.handlers import acls
from tests.broker.handlers.broker_client import AUTHORIZER, broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode


async def test_acl_is_created(tmp_path):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        answer = await one.call(acls.creation())
        assert [result.error_code for result in answer.results] == [0]
        await one.seen(lambda image: len(image.acls) == 1)


async def test_acls_are_refused_without_authorizer(tmp_path):
    async with broker_client(tmp_path) as one:
        (result,) = (await one.call(acls.creation())).results
        assert (result.error_code, result.error_message) == (
            ErrorCode.SECURITY_DISABLED,
            "No Authorizer is configured.",
        )


async def test_principal_without_type_is_refused(tmp_path):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        (result,) = (await one.call(acls.creation(principal="alice"))).results
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert not one.image.acls


async def test_refusal_is_returned_for_every_acl(tmp_path):
    answer = await refusal_by_controller(tmp_path, acls.creation(), 3)
    assert [r.error_code for r in answer.results] == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]

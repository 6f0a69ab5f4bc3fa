"""AlterUserScramCredentials on the controller."""

from tests.broker.handlers.test_alter_user_scram_credentials import upsertion
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.wire.errors import ErrorCode


async def test_scram_credential_is_recorded(tmp_path):
    async with controller_client(tmp_path) as one:
        answer = await one.call(upsertion())
        assert [(r.user, r.error_code) for r in answer.results] == [("alice", 0)]
        assert len(one.image.scram) == 1


async def test_too_few_iterations_are_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        (result,) = (await one.call(upsertion(iterations=4095))).results
        assert result.error_code == ErrorCode.UNACCEPTABLE_CREDENTIAL
        assert not one.image.scram


async def test_unauthorized_client_is_refused_for_every_user(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        (result,) = (await one.call(upsertion())).results
        assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

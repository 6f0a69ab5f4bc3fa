"""UnregisterController on the active controller (KIP-1312)."""

from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from tests.quorum.controller.handlers.test_controller_registration import registration
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)


async def test_registered_controller_is_forgotten_and_may_return(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.call(registration("CONTROLLER"))
        assert 7 in one.image.cluster.controllers
        gone = UnregisterControllerRequest(controller_id=7)
        assert await one.call(gone) == UnregisterControllerResponse(error_message=None)
        assert 7 not in one.image.cluster.controllers
        assert (await one.call(gone)).error_code == ErrorCode.CONTROLLER_ID_NOT_REGISTERED
        await one.call(registration("CONTROLLER"))
        assert 7 in one.image.cluster.controllers


async def test_active_controller_does_not_unregister_itself(tmp_path):
    async with controller_client(tmp_path) as one:
        answer = await one.call(UnregisterControllerRequest(controller_id=1))
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "Controller cannot unregister itself while it is active.",
        )


async def test_unauthorized_client_unregisters_no_controller(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        answer = await one.call(UnregisterControllerRequest(controller_id=7))
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

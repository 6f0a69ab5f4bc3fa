"""UnregisterController through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)


async def test_unknown_controller_is_refused_with_its_id(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(UnregisterControllerRequest(controller_id=77))
        assert answer == UnregisterControllerResponse(
            error_code=ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            error_message="Controller ID 77 is not currently registered.",
        )


async def test_refusal_of_the_controller_is_returned(tmp_path):
    request = UnregisterControllerRequest(controller_id=12)
    answer = await refusal_by_controller(tmp_path, request, 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

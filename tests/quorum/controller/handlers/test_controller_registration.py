"""ControllerRegistration: a controller reports its endpoints and features (KIP-919)."""

import pytest

from tests.quorum.controller.handlers.controller_client import controller_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)


def registration(*names):
    return ControllerRegistrationRequest(
        controller_id=7,
        incarnation_id=b"i" * 16,
        zk_migration_ready=False,
        listeners=[
            Listener(name=name, host="localhost", port=4711, security_protocol=0) for name in names
        ],
        features=[
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
        ],
    )


async def test_registration_of_controller_is_recorded(tmp_path):
    async with controller_client(tmp_path) as one:
        assert (await one.call(registration("CONTROLLER"))).error_code == 0
        found = one.image.cluster.controllers[7]
        assert [(e.name, e.host, e.port) for e in found.listeners] == [
            ("CONTROLLER", "localhost", 4711)
        ]


async def test_unchanged_registration_is_not_recorded_again(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.call(registration("CONTROLLER"))
        before = one.image.cluster.controllers[7]
        assert (await one.call(registration("CONTROLLER"))).error_code == 0
        assert one.image.cluster.controllers[7] is before
        await one.call(registration("CONTROLLER", "OTHER"))
        assert len(one.image.cluster.controllers[7].listeners) == 2


async def test_controller_registration_needs_an_id(tmp_path):
    async with controller_client(tmp_path) as one:
        request = registration("CONTROLLER")
        request.controller_id = -1
        assert (await one.call(request)).error_code == ErrorCode.INVALID_REGISTRATION
        assert -1 not in one.image.cluster.controllers


@pytest.mark.parametrize("names", [("",), ("CONTROLLER", "CONTROLLER")])
async def test_listeners_need_a_name_each(tmp_path, names):
    async with controller_client(tmp_path) as one:
        answer = await one.call(registration(*names))
        assert answer.error_code == ErrorCode.INVALID_REGISTRATION
        assert 7 not in one.image.cluster.controllers

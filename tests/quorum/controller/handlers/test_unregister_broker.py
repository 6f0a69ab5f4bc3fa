"""UnregisterBroker on the controller."""

import pytest

from tests.quorum.controller.handlers.controller_client import controller_client, standby_client
from tests.quorum.controller.solo import solo
from tests.quorum.metadata.build import broker, features
from trimaran.quorum.controller.handlers.unregister_broker import unregister_broker
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest


async def test_unregistered_broker_may_register_again(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1, 2)
        await one.create("t", [1, 2])
        assert (await one.call(UnregisterBrokerRequest(broker_id=1))).error_code == 0
        assert set(one.image.cluster.brokers) == {2}
        assert (one.partition().leader, one.partition().isr) == (2, (2,))
        back = one.nodes.scripted_broker(one.connection, 1, incarnation=1)
        assert await back.register() == 0


async def test_unknown_broker_is_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        answer = await one.call(UnregisterBrokerRequest(broker_id=7))
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.slow
async def test_inactive_controller_answers_not_controller(tmp_path):
    async with standby_client(tmp_path) as one:
        answer = await one.call(UnregisterBrokerRequest(broker_id=1))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER


async def test_unregistered_broker_has_no_session(mock_clock):
    async with solo(features(), broker(1)) as one:
        await one.beat(1)
        await one.call(unregister_broker, UnregisterBrokerRequest(broker_id=1))
        assert one.active.leases.of(1) is None

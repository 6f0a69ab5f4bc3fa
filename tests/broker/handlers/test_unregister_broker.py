"""UnregisterBroker through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest


async def test_removed_broker_is_forgotten(tmp_path):
    async with broker_client(tmp_path, brokers=2) as one:
        await one.cluster.stop(12)
        assert 12 in one.image.cluster.brokers
        assert (await one.call(UnregisterBrokerRequest(broker_id=12))).error_code == 0
        await one.seen(lambda image: set(image.cluster.brokers) == {11})


async def test_unknown_broker_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        answer = await one.call(UnregisterBrokerRequest(broker_id=77))
        assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


async def test_refusal_is_returned(tmp_path):
    answer = await refusal_by_controller(tmp_path, UnregisterBrokerRequest(broker_id=12), 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

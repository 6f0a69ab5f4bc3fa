"""BrokerRegistration: a broker that starts gets its epoch, and nobody else has its id."""

import pytest

from tests.quorum.controller.handlers.asking import asked, asked_standby
from wire.errors import ErrorCode
from wire.messages.broker_registration import Feature


async def test_a_new_broker_is_fenced_and_has_an_epoch(tmp_path):
    async with asked(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        assert await broker.register() == 0
        found = one.image.cluster.brokers[1]
        assert (found.epoch, found.fenced) == (broker.epoch, True)


async def test_another_process_with_the_id_of_one_that_lives_is_refused(tmp_path):
    async with asked(tmp_path) as one:
        await one.join(1)
        other = one.nodes.scripted_broker(one.connection, 1, incarnation=1)
        assert await other.register() == ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_registrations_that_are_refused(tmp_path):
    async with asked(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        old = Feature(name="metadata.version", min_supported_version=1, max_supported_version=2)
        codes = [
            await broker.register(cluster_id="another"),
            await broker.register(features=[old]),
        ]
        assert codes == [ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION]
        assert 1 not in one.image.cluster.brokers


@pytest.mark.slow
async def test_who_is_not_active_says_so(tmp_path):
    async with asked_standby(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        assert await broker.register() == ErrorCode.NOT_CONTROLLER

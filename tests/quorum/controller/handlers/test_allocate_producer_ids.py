"""AllocateProducerIds: returns blocks that no broker had before (KIP-730)."""

import itertools

import pytest

from tests.quorum.controller.handlers.controller_client import controller_client, standby_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest


def block(broker, epoch=None):
    return AllocateProducerIdsRequest(
        broker_id=broker.id, broker_epoch=broker.epoch if epoch is None else epoch
    )


async def test_producer_id_blocks_are_consecutive(tmp_path):
    async with controller_client(tmp_path) as one:
        first, second = await one.join(1, 2)
        blocks = [await one.call(block(broker)) for broker in (first, second, first)]
        assert [b.error_code for b in blocks] == [0] * 3
        for before, after in itertools.pairwise(blocks):
            assert after.producer_id_start == before.producer_id_start + before.producer_id_len


async def test_unknown_or_stale_broker_gets_no_producer_ids(tmp_path):
    async with controller_client(tmp_path) as one:
        (broker,) = await one.join(1)
        stale = await one.call(block(broker, broker.epoch - 1))
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        stranger = await one.call(AllocateProducerIdsRequest(broker_id=7, broker_epoch=1))
        assert stranger.error_code == ErrorCode.STALE_BROKER_EPOCH


@pytest.mark.slow
async def test_inactive_controller_answers_not_controller(tmp_path):
    async with standby_client(tmp_path) as one:
        answer = await one.call(AllocateProducerIdsRequest(broker_id=1))
        assert answer.error_code == ErrorCode.NOT_CONTROLLER

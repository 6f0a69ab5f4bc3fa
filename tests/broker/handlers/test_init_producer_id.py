"""InitProducerId: ids that nobody had before; transactions are not served."""

import pytest

from tests.broker.handlers.asking import asked
from wire.errors import ErrorCode
from wire.messages.init_producer_id import InitProducerIdRequest


def wanted(transactional_id=None, **fields):
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=1000, **fields
    )


@pytest.mark.parametrize("version", [0, 2, 5])
async def test_every_producer_gets_an_id_of_its_own(tmp_path, version):
    async with asked(tmp_path) as one:
        answers = [await one.call(wanted(), version) for _ in range(3)]
        assert {(one.error_code, one.producer_epoch) for one in answers} == {(0, 0)}
        ids = {one.producer_id for one in answers}
        assert len(ids) == 3
        assert min(ids) >= 0


async def test_no_id_is_given_twice_after_a_restart(tmp_path):
    async with asked(tmp_path, brokers=2) as one:
        before = (await one.call(wanted())).producer_id
        await one.cluster.stop(12)
        other = await one.cluster.start_broker(12)
        assert await other.context.producer_ids.take() > before


async def test_an_idempotent_producer_that_asks_again_gets_a_new_id(tmp_path):
    """KIP-360: it tells the one that it has."""
    async with asked(tmp_path) as one:
        first = await one.call(wanted())
        again = await one.call(wanted(producer_id=first.producer_id, producer_epoch=0))
        assert (again.error_code, again.producer_epoch) == (0, 0)
        assert again.producer_id > first.producer_id


@pytest.mark.parametrize(
    ("name", "code"),
    [("t", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("", ErrorCode.INVALID_REQUEST)],
)
async def test_transactional_producers_are_told_at_once(tmp_path, name, code):
    async with asked(tmp_path) as one:
        answer = await one.call(wanted(name))
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

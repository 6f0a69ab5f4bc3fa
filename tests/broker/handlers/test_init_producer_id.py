"""InitProducerId: new unique ids; a transactional producer fences its predecessor."""

import pytest

from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer, read_committed
from trimaran.broker.coordination import effects
from trimaran.node.replicated.state_machine import Producer
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest

E = ErrorCode


def wanted(transactional_id=None, **fields):
    return InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=1000, **fields
    )


@pytest.mark.parametrize("version", [0, 2, 5])
async def test_every_producer_gets_an_id_of_its_own(tmp_path, version):
    async with broker_client(tmp_path) as one:
        answers = [await one.call(wanted(), version) for _ in range(3)]
        assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(0, 0)}
        ids = {answer.producer_id for answer in answers}
        assert len(ids) == 3
        assert min(ids) >= 0


async def test_no_id_is_given_twice_after_a_restart(tmp_path):
    async with broker_client(tmp_path, brokers=2) as one:
        before = (await one.call(wanted())).producer_id
        await one.cluster.stop(12)
        other = await one.cluster.start_broker(12)
        assert await other.contexts.transactions.producer_ids.take() > before


async def test_idempotent_producer_gets_new_id_on_repeat(tmp_path):
    """KIP-360: the producer sends its current epoch."""
    async with broker_client(tmp_path) as one:
        first = await one.call(wanted())
        again = await one.call(wanted(producer_id=first.producer_id, producer_epoch=0))
        assert (again.error_code, again.producer_epoch) == (0, 0)
        assert again.producer_id > first.producer_id


async def test_next_producer_aborts_open_transaction_of_id(tmp_path):
    """One InitProducerId is enough, because it waits for the markers."""
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        first, second = WireProducer(one), WireProducer(one)
        await first.begin()
        await first.add(0)
        await first.produce(b"a")
        assert (await second.init()).error_code == E.NONE
        assert second.producer == (first.producer.id, first.producer.epoch + 2)
        assert await read_committed(one, wait_ms=5000) == ([], 2)


@pytest.mark.parametrize(
    ("version", "code"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)]
)
async def test_fenced_producer_does_not_fence_its_successor(tmp_path, version, code):
    async with broker_client(tmp_path, **SETTINGS) as one:
        first, second = WireProducer(one), WireProducer(one)
        await first.begin()
        await second.begin()
        assert (await first.init(told=first.producer, version=version)).error_code == code
        assert (await second.init(told=second.producer, version=version)).error_code == E.NONE


async def test_invalid_requests_are_refused(tmp_path):
    """mA8."""
    async with broker_client(tmp_path, transaction_max_timeout_ms="5000", **SETTINGS) as one:
        producer = WireProducer(one)
        await producer.find()
        for timeout_ms in (0, -1, 5001):
            answer = await producer.init(timeout_ms=timeout_ms)
            assert answer.error_code == E.INVALID_TRANSACTION_TIMEOUT
        assert (await producer.init(timeout_ms=5000)).error_code == E.NONE
        assert (await WireProducer(one, "").init(timeout_ms=5000)).error_code == E.INVALID_REQUEST
        half = Producer(7, -1)
        assert (await producer.init(told=half, timeout_ms=5000)).error_code == E.INVALID_REQUEST


async def test_another_broker_coordinates(tmp_path):
    """Before the topic exists, no broker coordinates."""
    async with broker_client(tmp_path, **SETTINGS) as one:
        answer = await WireProducer(one).init()
        assert (answer.error_code, answer.producer_id) == (E.NOT_COORDINATOR, -1)


async def test_overlong_transaction_is_aborted(tmp_path, monkeypatch):
    interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
    async with broker_client(tmp_path, **interval, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin(timeout_ms=60_000)
        await producer.add(0)
        await producer.produce(b"a")
        monkeypatch.setattr(effects, "now_ms", lambda: now_ms() + 60_000)
        assert await read_committed(one, wait_ms=10_000) == ([], 2)
        assert await producer.end() == E.PRODUCER_FENCED
        assert await producer.produce(b"b") == E.INVALID_PRODUCER_EPOCH

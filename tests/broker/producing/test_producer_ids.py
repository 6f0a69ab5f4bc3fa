"""A broker requests a block of producer ids when it has none left, and returns each id once."""

from collections import deque

import pytest
import trio

from trimaran.broker.producing.producer_ids import ProducerIdManager
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse

NODE_ID, BROKER_EPOCH = 11, 77


class Controller:
    """A controller that answers with these blocks (start and length) or errors, one after the other."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.requests = []

    async def call(self, request, *, timeout):  # noqa: ASYNC109 - as the channel's
        self.requests.append(request)
        assert timeout == 5.0
        await trio.lowlevel.checkpoint()
        answer = self.answers.popleft()
        if isinstance(answer, KafkaError):
            raise answer
        if isinstance(answer, ErrorCode):
            return AllocateProducerIdsResponse(
                error_code=answer, producer_id_start=500, producer_id_len=10
            )
        start, length = answer
        return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=length)


def ids_of(controller):
    return ProducerIdManager(controller, NODE_ID, lambda: BROKER_EPOCH)


async def test_id_block_is_exhausted_before_next_request():
    controller = Controller((1000, 3), (7000, 2))
    ids = ids_of(controller)
    assert [await ids.take() for _ in range(3)] == [1000, 1001, 1002]
    assert len(controller.requests) == 1
    assert [await ids.take() for _ in range(2)] == [7000, 7001]
    assert {(request.broker_id, request.broker_epoch) for request in controller.requests} == {
        (NODE_ID, BROKER_EPOCH)
    }


async def test_simultaneous_requests_share_one_block():
    controller = Controller((5, 10))
    ids, given = ids_of(controller), []

    async def take():
        given.append(await ids.take())

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(take)
    assert sorted(given) == list(range(5, 15))
    assert len(controller.requests) == 1


@pytest.mark.parametrize(
    "answer",
    [
        KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller is away"),
        ErrorCode.STALE_BROKER_EPOCH,
        (1000, 0),
        (1000, -1),
        (-1, 1000),
    ],
)
async def test_request_without_id_block_fails_retriably(answer):
    ids = ids_of(Controller(answer, (0, 1)))
    with pytest.raises(KafkaError) as refused:
        await ids.take()
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert await ids.take() == 0

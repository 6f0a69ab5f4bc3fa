"""InitProducerId: an id for whoever asks, and an end at once for transactional producers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from broker.handlers.init_producer_id import init_producer_id
from tests.broker.calls import call, through_wire
from wire.errors import ErrorCode, KafkaError
from wire.messages.init_producer_id import InitProducerIdRequest


class ProducerIds:
    """Has one id to give, or an error."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self.error = error

    async def take(self) -> int:
        if self.error is not None:
            raise self.error
        return 7


async def ask(transactional_id, version, error=None):
    message = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1)
    request = through_wire(message, version)
    context = SimpleNamespace(producer_ids=ProducerIds(error))
    answer = await init_producer_id(request, context, call(request, version))
    return ErrorCode.of(answer.error_code), answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
async def test_every_version(version):
    assert await ask(None, version) == (ErrorCode.NONE, 7, 0)


@pytest.mark.parametrize("version", range(6))
@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [
        ("x", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_transactions_are_not_served(version, transactional_id, code):
    assert await ask(transactional_id, version) == (code, -1, -1)


async def test_while_the_controller_gives_none():
    error = KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert await ask(None, 5, error) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)

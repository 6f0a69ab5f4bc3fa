"""DescribeClientQuotas: answered by a filter from the broker's own metadata."""

from types import SimpleNamespace

from tests.broker.calls import call, carried_out
from tests.broker.handlers.broker_client import broker_client
from tests.broker.handlers.test_alter_client_quotas import alteration
from tests.broker.rooms import NotedRoom
from trimaran.broker.handlers.describe_client_quotas import describe_client_quotas
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from trimaran.wire.transport.memory.room import OBJECT_BYTES
from trimaran.wire.transport.scheduling.effects import ITEM_COST_BYTES, Compute


def described(*components):
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=False,
    )


async def test_quotas_matching_filter_are_described(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.call(alteration(7.0))
        await one.seen(lambda image: len(image.quotas) == 1)
        for wanted, found in (
            (described(), [7.0]),
            (described(("user", 0, "alice")), [7.0]),
            (described(("user", 0, "bob")), []),
        ):
            answer = await one.call(wanted)
            assert [v.value for entry in answer.entries for v in entry.values] == found


async def test_invalid_filter_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        twice = await one.call(described(("user", 2, None), ("user", 2, None)))
        assert twice.error_code == ErrorCode.INVALID_REQUEST
        strange = await one.call(described(("planet", 2, None)))
        assert strange.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_memory_and_steps_depend_on_all_quotas():
    quotas = {
        ((("user", name),), "producer_byte_rate"): SimpleNamespace(value=7.0) for name in "abc"
    }
    context = SimpleNamespace(metadata=SimpleNamespace(image=SimpleNamespace(quotas=quotas)))
    request = described(("user", 0, "b"))
    asked, effects = call(request, 1), []
    room = NotedRoom(asked)
    answer = await carried_out(describe_client_quotas(request, context, asked), effects)
    assert len(answer.entries) == 1
    assert room.noted == [("expect", 3 * OBJECT_BYTES)]
    costs = [effect.cost_bytes for effect in effects if isinstance(effect, Compute)]
    assert costs == [3 * ITEM_COST_BYTES]

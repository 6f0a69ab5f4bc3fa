"""BrokerHeartbeat: a broker is unfenced when it has caught up, fenced when it wants to, and let go when nothing is led
by it.
"""

from tests.quorum.controller.handlers.asking import asked
from wire.errors import ErrorCode


async def test_a_broker_is_unfenced_when_it_has_caught_up(tmp_path):
    async with asked(tmp_path) as one:
        broker = one.nodes.scripted_broker(one.connection, 1)
        await broker.register()
        behind = await broker.beat(offset=0)
        assert (behind.is_caught_up, behind.is_fenced) == (False, True)
        there = await broker.beat(offset=broker.epoch)
        assert (there.is_caught_up, there.is_fenced) == (True, False)
        assert one.image.cluster.brokers[1].fenced is False


async def test_a_broker_that_wants_to_be_fenced_leads_nothing(tmp_path):
    async with asked(tmp_path) as one:
        first, _second = await one.join(1, 2)
        await one.create("t", [1, 2])
        assert (await first.beat(want_fence=True)).is_fenced
        assert (one.partition().leader, one.partition().isr) == (2, (2,))


async def test_a_broker_with_nothing_to_hand_over_may_go(tmp_path):
    async with asked(tmp_path) as one:
        (broker,) = await one.join(1)
        answer = await broker.beat(want_shut_down=True)
        assert answer.should_shut_down


async def test_who_is_unknown_or_of_an_old_epoch_is_told(tmp_path):
    async with asked(tmp_path) as one:
        stranger = one.nodes.scripted_broker(one.connection, 7)
        assert (await stranger.beat()).error_code == ErrorCode.STALE_BROKER_EPOCH
        (broker,) = await one.join(1)
        broker.epoch -= 1
        assert (await broker.beat()).error_code == ErrorCode.STALE_BROKER_EPOCH

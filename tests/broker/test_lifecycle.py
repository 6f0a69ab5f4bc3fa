"""The broker's heartbeats, against a controller that notes them."""

import trio

from broker.lifecycle import BrokerIdentity, Lifecycle, LifecycleTimes
from wire.errors import ErrorCode
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from wire.messages.broker_registration import BrokerRegistrationResponse

IDENTITY = BrokerIdentity(
    node_id=11,
    cluster_id="c",
    directory_ids=(bytes(range(16)),),
    listeners=(),
    features=(),
    rack=None,
    previous_broker_epoch=-1,
)


class NotingController:
    """Registers everybody, unfences at once, lets go at once."""

    def __init__(self):
        self.heartbeats = []

    async def call(self, request, *, timeout):  # noqa: ASYNC109 - the channel's own signature
        await trio.lowlevel.checkpoint()
        if not isinstance(request, BrokerHeartbeatRequest):
            return BrokerRegistrationResponse(broker_epoch=7)
        self.heartbeats.append(request)
        return BrokerHeartbeatResponse(
            error_code=ErrorCode.NONE,
            is_caught_up=True,
            is_fenced=request.want_fence,
            should_shut_down=request.want_shut_down,
        )


async def test_a_broker_that_was_let_go_never_asks_to_serve_again(autojump_clock):
    controller = NotingController()
    lifecycle = Lifecycle(controller, IDENTITY, LifecycleTimes(), lambda: 5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifecycle.run)
        lifecycle.unfence()
        await trio.sleep(5)
        assert controller.heartbeats
        assert not any(h.want_shut_down for h in controller.heartbeats)
        assert await lifecycle.shut_down(10)
        left = len(controller.heartbeats)
        lifecycle.report()  # somebody else leaves in the same moment
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert all(h.want_shut_down for h in controller.heartbeats[left - 1 :])

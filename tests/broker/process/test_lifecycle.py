"""The broker's heartbeats, against a controller that notes them."""

import pytest
import trio

from trimaran.broker.process.lifecycle import (
    BrokerIdentity,
    Lifecycle,
    LifecycleTimes,
    RegistrationRefused,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from trimaran.wire.messages.broker_registration import BrokerRegistrationResponse

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
    """A controller that registers every broker, unfences it immediately, and lets it shut down immediately."""

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


async def test_stopped_broker_never_asks_to_be_unfenced(autojump_clock):
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
        lifecycle.report()  # another broker shuts down at the same moment
        await trio.sleep(60)
        nursery.cancel_scope.cancel()
    assert all(h.want_shut_down for h in controller.heartbeats[left - 1 :])


async def test_cordoned_directories_are_reported_after_catching_up(autojump_clock):
    """Before, its configs may be outdated."""
    controller, applied = NotingController(), [6]
    lifecycle = Lifecycle(
        controller,
        IDENTITY,
        LifecycleTimes(),
        lambda: applied[0],
        cordoned_directories=lambda: list(IDENTITY.directory_ids),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifecycle.run)
        await trio.sleep(5)
        assert {heartbeat.cordoned_log_dirs for heartbeat in controller.heartbeats} == {None}
        applied[0] = 7
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert controller.heartbeats[-1].cordoned_log_dirs == list(IDENTITY.directory_ids)


class RefusingController:
    async def call(self, request, *, timeout):  # noqa: ASYNC109 - the channel's own signature
        await trio.lowlevel.checkpoint()
        return BrokerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


async def test_unsupported_features_are_named_once(autojump_clock, caplog):
    lacking = iter(["", "", "share.version=1 (only 0 to 0)"])
    last = "share.version=1 (only 0 to 0)"
    lifecycle = Lifecycle(
        RefusingController(),
        IDENTITY,
        LifecycleTimes(),
        lambda: 5,
        unsupported_levels=lambda: next(lacking, last),
    )
    with pytest.raises(RegistrationRefused, match=r"finalized share\.version=1 \(only 0 to 0\)"):
        await lifecycle.run()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "UNSUPPORTED_VERSION; trying again" in said[0]
    assert "kafka-features downgrade" in said[1]


class AbsentMindedController(NotingController):
    """A controller that at first registers brokers without an epoch."""

    def __init__(self):
        super().__init__()
        self.registrations = 0

    async def call(self, request, *, timeout):  # noqa: ASYNC109 - the channel's own signature
        answer = await super().call(request, timeout=timeout)
        if isinstance(answer, BrokerRegistrationResponse):
            self.registrations += 1
            answer.broker_epoch = 7 if self.registrations > 3 else -1
        return answer


async def test_registration_without_epoch_does_not_count(autojump_clock):
    controller = AbsentMindedController()
    lifecycle = Lifecycle(controller, IDENTITY, LifecycleTimes(), lambda: 5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lifecycle.run)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert controller.registrations == 4
    assert {heartbeat.broker_epoch for heartbeat in controller.heartbeats} == {7}

"""Request quotas: charges for time on the event loop, and exempt requests."""

import time

import pytest

from tests.broker.calls import call
from tests.wire.transport.support import Toy, heartbeat, heartbeat_frame, open_raw, open_server
from trimaran.broker.metadata.client_quotas import ClientQuotas
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles

PERCENT = 10.0
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
MARKERS = WriteTxnMarkersRequest(markers=[])


@pytest.fixture
def quotas():
    made = ClientQuotas(now=lambda: 0.0, loop_clock=lambda: 0.0)
    made.requests.set_limits({(("user", None),): PERCENT})
    return made


def charged_call(quotas, request, seconds, response, version=1, connection=None):
    """Lets the connection use the loop for `seconds` before its response is ready."""
    at = call(request, version)
    if connection is not None:
        at.connection = connection
    quotas.hooks.begin(at)
    at.connection.loop_time.seconds += seconds
    quotas.hooks.end(at, response)
    return at


@pytest.mark.parametrize(
    ("seconds", "throttle_ms"),
    [(1.0, 0), (1.05, 500), (2.0, 1000)],
    ids=["a tenth of ten windows", "half a window more", "never more than a window"],
)
async def test_loop_share_is_measured_over_quota_windows(quotas, seconds, throttle_ms):
    response = HeartbeatResponse()
    at = charged_call(quotas, HEARTBEAT, seconds, response)
    assert (at.throttle_ms, response.throttle_time_ms) == (throttle_ms, throttle_ms)
    assert (at.connection.muted_until is not None) is (throttle_ms > 0)


@pytest.mark.parametrize(
    ("request_", "response"),
    [(MARKERS, WriteTxnMarkersResponse(markers=[])), (HEARTBEAT, None)],
    ids=["between brokers", "no answer is owed"],
)
async def test_exempt_requests_are_not_charged(quotas, request_, response):
    assert charged_call(quotas, request_, 100.0, response).throttle_ms == 0
    assert charged_call(quotas, HEARTBEAT, 0.5, HeartbeatResponse()).throttle_ms == 0


async def test_time_before_quota_is_not_charged(quotas):
    at = charged_call(ClientQuotas(), HEARTBEAT, 100.0, HeartbeatResponse())
    assert at.throttle_ms == 0
    assert (
        charged_call(quotas, HEARTBEAT, 0.5, HeartbeatResponse(), 1, at.connection).throttle_ms == 0
    )


async def test_encoding_and_sending_charge_the_next_request(quotas):
    first = charged_call(quotas, HEARTBEAT, 0.5, HeartbeatResponse())
    first.connection.loop_time.seconds += 0.5
    second = charged_call(quotas, HEARTBEAT, 0.05, HeartbeatResponse(), 1, first.connection)
    assert (first.throttle_ms, second.throttle_ms) == (0, 500)


async def test_all_loop_time_of_connection_is_charged(quotas, monkeypatch):
    """Over a socket: the charges add up to the time of the connection's reader and writer, which is more than that of
    the handlers.
    """
    charged, handled = [], []
    monkeypatch.setattr(quotas, "loop_clock", time.perf_counter)
    monkeypatch.setattr(
        quotas.requests, "use", lambda _user, _client, amount, _now: charged.append(amount) or 0.0
    )

    @handles(HeartbeatRequest, versions="0-4", access=open_to_all("a test"))
    def measured(request, toy, call):
        began = time.perf_counter()
        response = yield from heartbeat(request, toy, call)
        handled.append(time.perf_counter() - began)
        return response

    registry = Registry([measured], hooks=quotas.hooks)
    async with open_server(registry, context=Toy()) as server, open_raw(server) as client:
        for _ in range(20):
            await client.send(heartbeat_frame("g") * 20)
            for _ in range(20):
                await client.heartbeat()
        (connection,) = server.connections.values()
        taken = connection.info.loop_time.seconds
        left = connection.info.loop_time.take(0.0)
    assert len(charged) == len(handled) == 400
    assert sum(charged) / 100 == pytest.approx(taken - left)
    assert sum(handled) < taken - left

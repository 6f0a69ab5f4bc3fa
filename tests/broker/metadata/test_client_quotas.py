"""What a request is charged for keeping the event loop, and which are exempt."""

import pytest

from broker.metadata.client_quotas import ClientQuotas
from tests.broker.calls import call
from wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

PERCENT = 10.0
HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
MARKERS = WriteTxnMarkersRequest(markers=[])


@pytest.fixture
def quotas():
    made = ClientQuotas(now=lambda: 0.0)
    made.requests.set_limits({(("user", None),): PERCENT})
    return made


def asked(quotas, request, seconds, response, version=1):
    at = call(request, version)
    quotas.hooks.begin(at)
    at.kept_loop(seconds)
    quotas.hooks.end(at, response)
    return at


@pytest.mark.parametrize(
    ("seconds", "throttle_ms"),
    [(1.0, 0), (1.05, 500), (2.0, 1000)],
    ids=["a tenth of ten windows", "half a window more", "never more than a window"],
)
async def test_a_share_of_the_loop_is_measured_over_the_windows(quotas, seconds, throttle_ms):
    response = HeartbeatResponse()
    at = asked(quotas, HEARTBEAT, seconds, response)
    assert (at.throttle_ms, response.throttle_time_ms) == (throttle_ms, throttle_ms)
    assert (at.connection.muted_until is not None) is (throttle_ms > 0)


@pytest.mark.parametrize(
    ("request_", "response"),
    [(MARKERS, WriteTxnMarkersResponse(markers=[])), (HEARTBEAT, None)],
    ids=["between brokers", "no answer is owed"],
)
async def test_what_is_exempt_is_not_charged(quotas, request_, response):
    assert asked(quotas, request_, 100.0, response).throttle_ms == 0
    assert asked(quotas, HEARTBEAT, 0.5, HeartbeatResponse()).throttle_ms == 0


async def test_without_such_a_quota_nothing_is_measured():
    at = asked(ClientQuotas(), HEARTBEAT, 100.0, HeartbeatResponse())
    assert (at.loop_seconds, at.throttle_ms) == (None, 0)

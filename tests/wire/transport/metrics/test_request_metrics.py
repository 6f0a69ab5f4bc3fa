"""Requests are counted by API, version and error, with the time from their decoding to their response."""

import time

from tests.wire.transport.support import (
    Toy,
    api_versions_frame,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
)
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.heartbeat import HeartbeatResponse
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.metrics.request_metrics import RequestMetrics


async def test_every_answer_is_counted_once_with_its_error():
    toy = Toy()
    deferred = toy.defer("late")
    toy.failures["bad"] = KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    registry = Registry((heartbeat,))
    async with open_server(registry, context=toy) as server, open_raw(server) as client:
        await client.send(heartbeat_frame("now", 1) + heartbeat_frame("late", 2))
        await client.send(heartbeat_frame("bad", 3) + api_versions_frame(4, 4))
        deferred.set()
        for _ in range(4):
            assert await client.frame()
    found = {route.metrics.name: route.metrics for route in server.registry.routes()}
    assert found["Heartbeat"].outcomes == {(4, 0): 2, (4, ErrorCode.UNKNOWN_MEMBER_ID): 1}
    assert found["Heartbeat"].times.count == 3
    assert found["ApiVersions"].outcomes == {(4, 0): 1}
    assert found["SaslHandshake"].outcomes == {}


def test_response_without_top_level_error_counts_as_success():
    metrics = RequestMetrics("Toy")
    metrics.ended(1, 0.0, None)
    metrics.ended(1, 0.0, object())
    assert metrics.outcomes == {(1, 0): 2}


def test_request_time_counts_from_decoding(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    metrics = RequestMetrics("Heartbeat")
    failed = HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    for version, began, response in ((3, 99.75, HeartbeatResponse()), (4, 99.5, failed)):
        metrics.ended(version, began, response)
    metrics.ended(4, 99.5, failed)
    assert metrics.outcomes == {(3, 0): 1, (4, ErrorCode.NOT_COORDINATOR): 2}
    assert (metrics.name, metrics.times.count, metrics.times.seconds) == ("Heartbeat", 3, 1.25)
    assert sum(metrics.times.summary(now[0]).counts) == 3
    now[0] += 200.0
    assert sum(metrics.times.summary(now[0]).counts) == 0

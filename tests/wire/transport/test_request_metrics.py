"""Requests are counted by API, version and error, with the time from their decoding to their answer."""

from tests.wire.transport.support import (
    Toy,
    api_versions_frame,
    heartbeat,
    heartbeat_frame,
    open_raw,
    open_server,
)
from wire.errors import ErrorCode, KafkaError
from wire.transport.registry import Registry
from wire.transport.request_metrics import RequestMetrics


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


def test_what_has_no_top_level_error_counts_as_without():
    metrics = RequestMetrics("Toy")
    metrics.ended(1, 0.0, None)
    metrics.ended(1, 0.0, object())
    assert metrics.outcomes == {(1, 0): 2}

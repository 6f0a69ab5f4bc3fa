"""Observations, and the trace."""

from trimaran.faults import observations
from trimaran.faults.observations import FaultPeer, FaultTrace, Observation, ObservationLog
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.registry import ApiKey


def observed(number, frame_bytes=10):
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    return Observation(
        "r",
        FaultPeer(1, "PLAINTEXT", 1, "c", "java", "User:a"),
        ApiKey.HEARTBEAT,
        4,
        number,
        request,
        frame_bytes=frame_bytes,
    )


def test_observation_is_shown_as_json():
    seen = observed(3)
    seen.response, seen.done = HeartbeatResponse(error_code=27), "error REBALANCE_IN_PROGRESS"
    shown = seen.as_json()
    assert shown["api"] == "Heartbeat"
    assert shown["client_id"] == "c"
    assert shown["request"]["group_id"] == "g"
    assert shown["response"]["error_code"] == 27
    assert observed(3).as_json()["response"] is None


def test_oldest_observations_are_dropped_beyond_bounds(monkeypatch):
    monkeypatch.setattr(observations, "OBSERVATIONS_MAX", 3)
    log = ObservationLog()
    for number in range(5):
        log.add(observed(number))
    assert [seen.correlation_id for seen in log.kept] == [2, 3, 4]
    assert log.frame_bytes == 30
    monkeypatch.setattr(observations, "OBSERVED_BYTES_MAX", 15)
    log.add(observed(5, frame_bytes=100))
    assert [seen.correlation_id for seen in log.kept] == [5]
    log.clear()
    assert (len(log.kept), log.frame_bytes) == (0, 0)


def test_trace_numbers_lines_and_reports_dropped_ones():
    trace = FaultTrace()
    for line in ("a", "b", "c"):
        trace.add(line)
    assert str(trace) == "1 a\n2 b\n3 c"
    trace.lines.popleft()
    assert str(trace) == "(1 earlier lines are lost)\n2 b\n3 c"

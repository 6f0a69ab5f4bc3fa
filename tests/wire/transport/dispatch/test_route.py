"""Routes: the declarations of a handler, and the exact response to an error of each kind of route."""

import logging

import pytest

from tests.broker.calls import call
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.messages.fetch import FetchRequest, FetchResponse
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.metadata import MetadataRequest, MetadataResponse
from trimaran.wire.messages.produce import ProduceRequest
from trimaran.wire.schema import DECODE_BUDGET
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.dispatch.route import route_of
from trimaran.wire.transport.metrics.limited_log import LimitedLog
from trimaran.wire.transport.requests.access import open_to_all
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.requests.hooks import Hooks

OPEN = open_to_all("a test")
CODE = ErrorCode.NOT_COORDINATOR
ERROR = KafkaError(CODE, "why")
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def routed(request, versions, hooks=None, **options):
    @handles(request, versions=versions, access=OPEN, **options)
    def handler(request, context, call):
        raise AssertionError

    return route_of(handler, LimitedLog(logging.getLogger("route")), None, hooks)


@pytest.mark.parametrize(
    ("elements_max", "takes_frame", "is_light"),
    [
        (999, False, False),
        (1000, False, True),
        (1001, False, False),
        (11_999, False, False),
        (12_000, False, True),
        (12_001, False, False),
        (12_001, True, True),
        (1000, True, True),
    ],
)
def test_few_elements_or_forwarding_make_request_light(elements_max, takes_frame, is_light):
    options = {"elements_max": elements_max, "takes_frame": takes_frame}
    route = routed(HeartbeatRequest, "0-4", **options)
    assert route.is_light is is_light
    assert route.budget == DECODE_BUDGET._replace(elements_max=elements_max)


def test_known_answer_is_counted_before_hooks_run():
    told = []
    after = Hooks(after=lambda *given: told.append((*given, dict(route.metrics.outcomes))))
    route, asked = routed(HeartbeatRequest, "0-4", hooks=after), call(BEAT, 3)
    said = HeartbeatResponse(error_code=CODE)
    route.ended(asked, said)
    assert told == [(asked, said, {(3, CODE): 1})]
    without = routed(HeartbeatRequest, "0-4")
    without.ended(asked, None)
    assert without.metrics.outcomes == {(3, 0): 1}
    assert (without.metrics.name, without.metrics.times.count) == ("Heartbeat", 1)


def test_error_is_answered_by_handler_before_its_api():
    route = routed(HeartbeatRequest, "0-4")
    assert route.error_response(ERROR, 4) == HeartbeatResponse(error_code=CODE)
    assert route.error_response_to(BEAT, ERROR, 4) == HeartbeatResponse(error_code=CODE)
    own = HeartbeatResponse(error_code=CODE, throttle_time_ms=3)
    given = []

    def say(*arguments):
        given.append(arguments)
        return own

    assert route.error_response(ERROR, 4, say) is own
    special = routed(HeartbeatRequest, "0-4", on_error=say)
    assert special.general_error is None
    assert special.error_response_to(BEAT, ERROR, 4) is own
    assert given == [(CODE, "why"), (BEAT, CODE, "why")]


@pytest.mark.parametrize(
    ("request_class", "version"), [(ProduceRequest, 9), (FindCoordinatorRequest, 4)]
)
def test_unanswerable_error_closes_connection_with_its_cause(request_class, version):
    route = routed(request_class, "3-5" if request_class is FindCoordinatorRequest else "3-9")
    with pytest.raises(CloseConnection) as closed:
        route.error_response(ERROR, version)
    assert str(closed.value) == f"{request_class.__name__} failed: {ERROR!r}"
    assert closed.value.__cause__ is ERROR


def test_whole_error_is_answered_up_to_last_version():
    route = routed(FindCoordinatorRequest, "3-5")
    expected = FindCoordinatorResponse(error_code=CODE, error_message="why")
    assert route.error_response(ERROR, 3) == expected


@pytest.mark.parametrize(
    ("said", "version", "code"),
    [
        # The error code is a field up to version 3, and not ignorable.
        (FindCoordinatorResponse(error_code=CODE), 0, CODE),
        (FindCoordinatorResponse(error_code=CODE), 3, CODE),
        (FindCoordinatorResponse(error_code=CODE), 4, ErrorCode.NONE),
        # A field from version 7 on, and ignorable before.
        (FetchResponse(error_code=CODE, responses=[]), 6, CODE),
        (FetchResponse(error_code=CODE, responses=[]), 7, CODE),
        (MetadataResponse(error_code=CODE, brokers=[], topics=[]), 12, CODE),
        (HeartbeatResponse(error_code=CODE, throttle_time_ms=3), 0, CODE),
    ],
    ids=lambda one: type(one).__name__,
)
def test_whole_code_is_dropped_if_version_lacks_it(said, version, code):
    request = {
        FindCoordinatorResponse: FindCoordinatorRequest,
        FetchResponse: FetchRequest,
        MetadataResponse: MetadataRequest,
        HeartbeatResponse: HeartbeatRequest,
    }[type(said)]
    route = routed(request, f"{version}")
    answered = route.error_response(ERROR, version, lambda _code, _message: said)
    assert answered == said.replace(error_code=code)
    assert type(said).decode(answered.encode(version), version) is not None


async def test_unexpected_exception_is_logged_without_details(caplog):
    route = routed(HeartbeatRequest, "0-4")
    assert route.as_kafka_error(ERROR) is ERROR
    assert caplog.records == []
    failure = ValueError("secret")
    hidden = route.as_kafka_error(failure)
    assert (hidden.code, hidden.message) == (
        ErrorCode.UNKNOWN_SERVER_ERROR,
        "unexpected error, see the log of the node",
    )
    (record,) = caplog.records
    assert record.exc_info[1] is failure
    assert "HeartbeatRequest" in record.getMessage()


def test_async_function_is_refused_as_a_handler():
    @handles(HeartbeatRequest, versions="0-4", access=OPEN)
    async def coroutine(request, context, call):
        return HeartbeatResponse()

    @handles(HeartbeatRequest, versions="0-4", access=OPEN)
    async def generator(request, context, call):
        yield None

    for handler in (coroutine, generator):
        with pytest.raises(TypeError, match=f"{handler.__name__} is an async function"):
            Registry((handler,))

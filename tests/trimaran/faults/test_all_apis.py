"""Every API and version through the engine: an error is placed, and read by our own codec."""

from tests.checks import check_each
from tests.trimaran.faults.engine import EngineHarness
from tests.trimaran.faults.samples import sample, versions
from trimaran.faults.actions import AnswerError
from trimaran.faults.error_places import chosen_place
from trimaran.faults.places import (
    add_errors,
    error_field,
    places_of,
    read_items,
    zero_struct,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey

CODE = ErrorCode.NOT_CONTROLLER
PAIRS = versions()


def request_of(api, version):
    places = [place for place in places_of(api, version) if place.request]
    return sample(api, version, places[-1])[0] if places else zero_struct(REQUESTS[api])


def answered(request, version):
    """Answers with the items of the request, and with two partitions in topics that it names as a whole."""
    response = zero_struct(RESPONSES[request.KEY])
    place = places_of(request.KEY, version)[-1]
    items = [*read_items(request, place.request)] or [{"path": "/a"}]
    if place.needs_response:
        items = [item | {"partition": n} for item in items for n in (0, 1)]
    add_errors(response, place, items, ErrorCode.NONE)
    return response


def codes_in(response, levels):
    elements = [response]
    for level in levels:
        elements = [each for element in elements for each in getattr(element, level.array) or ()]
    return [getattr(each, error_field(type(each)).name) for each in elements]


def test_error_is_read_by_client_of_each_version():
    def check(pair):
        api, version = pair
        target = chosen_place(AnswerError(CODE), frozenset(), api, version)
        harness = EngineHarness(answered)
        harness.faults.add(api=int(api), error=CODE.name, version=version)
        request = request_of(api, version)
        if api == ApiKey.PRODUCE:
            request.acks = 1
        response = harness.call(request, version)
        levels = () if target.is_top else target.place.response
        codes = codes_in(response, levels)
        assert codes
        assert set(codes) == {CODE}

    check_each(PAIRS, check)


def test_error_of_applied_request_is_placed_alike():
    def check(pair):
        api, version = pair
        target = chosen_place(AnswerError(CODE), frozenset(), api, version)
        if target.is_top:
            return
        harness = EngineHarness(answered)
        harness.faults.add(api=int(api), error=CODE.name, applied=True)
        request = request_of(api, version)
        if api == ApiKey.PRODUCE:
            request.acks = 1
        response = harness.call(request, version)
        assert set(codes_in(response, target.place.response)) == {CODE}
        assert len(harness.received) == 1

    check_each(PAIRS, check)

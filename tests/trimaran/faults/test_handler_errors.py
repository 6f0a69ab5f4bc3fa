"""Errors that the engine makes from schemas, compared with those that our handlers declare (`on_error`)."""

from tests.trimaran.faults.samples import error_of_items, sample
from trimaran.broker.handlers.registry import HANDLERS
from trimaran.faults.actions import AnswerError
from trimaran.faults.error_places import chosen_place
from trimaran.faults.places import items_of, places_of, top_error, zero_struct
from trimaran.quorum.controller.handlers.registry import CONTROLLER_HANDLERS, QUORUM_HANDLERS
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey
from trimaran.wire.text.as_json import as_json
from trimaran.wire.transport.requests.error_responses import general_error, in_version
from trimaran.wire.transport.requests.handles import declaration_of

CODE = ErrorCode.NOT_CONTROLLER
# APIs whose errors differ, each with the reason.
DIFFERENT = {
    "Fetch": "a rule means partitions; the handler fails as a whole",
    "ShareFetch": "a rule means partitions; the handler fails as a whole",
    "ShareAcknowledge": "a rule means partitions; the handler fails as a whole",
    "Metadata": "a rule means topics; the handler also sets the code at the top",
    "ElectLeaders": "the handler repeats the code in the partitions",
    "AlterPartitionReassignments": "the handler repeats the code in the partitions",
    "OffsetFetch": "the handler repeats the code in the partitions of versions 2 to 7",
    "CreateDelegationToken": "the handler leaves zeros in the times",
    "DescribeTransactions": "the handler leaves zeros in producer id and epoch",
    "DescribeLogDirs": "the oldest versions show directories only in responses",
    "AlterClientQuotas": "both sample entities are empty, so they are one item",
}


def plain(shown):
    """Returns JSON without messages, which the engine does not make."""
    if isinstance(shown, dict):
        return {key: plain(value) for key, value in shown.items() if "message" not in key}
    return [plain(each) for each in shown] if isinstance(shown, list) else shown


def read_again(response, version):
    return plain(as_json(type(response).decode(response.encode(version), version), version))


def of_engine(api, version, request):
    target = chosen_place(AnswerError(CODE), frozenset(), api, version)
    if target.is_top:
        return read_again(top_error(api, CODE), version)
    if target.place.needs_response:
        return None
    items = items_of(request, version)
    return read_again(error_of_items(target.place, api, items, CODE), version)


def of_handler(declared, version, request):
    general = general_error(declared.request)
    response = (
        declared.on_error(request, CODE, "m") if declared.on_error else general.build(CODE, "m")
    )
    return read_again(in_version(response, version), version)


def test_errors_are_those_of_our_handlers():
    declarations = {
        declared.request.KEY: declared
        for handler in (*CONTROLLER_HANDLERS, *QUORUM_HANDLERS, *HANDLERS)
        if not (declared := declaration_of(handler)).takes_frame or declared.on_error
    }
    different, compared = set(), 0
    for api, declared in declarations.items():
        for version in range(declared.versions.low, declared.versions.high + 1):
            places = [place for place in places_of(api, version) if place.request]
            request = sample(api, version, places[-1])[0] if places else zero_struct(REQUESTS[api])
            compared += 1
            if of_engine(api, version, request) != of_handler(declared, version, request):
                different.add(ApiKey(api).spelling)
    assert different == DIFFERENT.keys()
    assert compared > 200
    assert len(declarations) > 60
    assert len(RESPONSES) >= len(declarations)

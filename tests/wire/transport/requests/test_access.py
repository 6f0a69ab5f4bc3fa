"""Handlers behind a guard: whole requests are refused, and items are removed from requests and responses."""

from dataclasses import dataclass, field

import pytest
import trio

from tests.broker.calls import connection
from trimaran.wire.errors import CloseConnection, ErrorCode, KafkaError
from trimaran.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from trimaran.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.security.acls import CLUSTER_NAME, Operation, ResourceType
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import (
    BY_CONTROLLER,
    cluster,
    groups,
    open_to_all,
    topics,
)
from trimaran.wire.transport.requests.handles import Handled, handles
from trimaran.wire.transport.scheduling.effects import Blocking, Wait

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


@dataclass
class Rules:
    """An authorizer, and the context that it reads: the rules, and the queries so far."""

    allowed: set = field(default_factory=set)
    asked: list = field(default_factory=list)
    seen: list = field(default_factory=list)

    rules: bool = True

    def judges(self, context):
        return self.rules

    def allows(self, context, call, operation, resource_type, name, *, asked_for):
        assert context is self
        assert call.header.client_id == "test"
        self.asked.append((operation, resource_type, name))
        return (operation, resource_type, name) in self.allowed


def results(names, code=ErrorCode.NONE, message=""):
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
            for name in names
        ]
    )


def fail(request, code, message):
    return results([topic.name for topic in request.topics], code, message)


ALTER_TOPICS = topics(Operation.ALTER, "topics.name", "results")


@handles(CreatePartitionsRequest, versions="0-3", access=ALTER_TOPICS, on_error=fail)
def at_once(request, rules, call):
    rules.seen += [topic.name for topic in request.topics]
    return results(topic.name for topic in request.topics)


@handles(CreatePartitionsRequest, versions="0-3", access=ALTER_TOPICS, on_error=fail)
def later(request, rules, call):
    yield Blocking(trio.lowlevel.checkpoint)
    return at_once(request, rules, call)


@handles(CreatePartitionsRequest, versions="0-3", access=ALTER_TOPICS, on_error=fail)
def deferred(request, rules, call):
    async def finish():
        return at_once(request, rules, call)

    return (yield Wait(finish))


async def answer(handler, rules, request, version):
    frame = memoryview(bytearray(encode_request(request, version, 7, "test")))
    said = Registry((handler,), judge=rules).dispatch(frame, rules, connection())
    data = bytes(await said.finish() if hasattr(said, "finish") else said)
    _, body = decode_response_header(data, request.KEY, version)
    return RESPONSES[request.KEY].decode(data[body:], version)


def grown(*names):
    topics = [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]
    return CreatePartitionsRequest(topics=topics, timeout_ms=1, validate_only=False)


def codes(response):
    return [(result.name, result.error_code) for result in response.results]


REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("handler", [at_once, later, deferred])
async def test_items_not_allowed_never_reach_the_handler(handler):
    rules = Rules({(Operation.ALTER, TOPIC, "a"), (Operation.ALTER, TOPIC, "c")})
    response = await answer(handler, rules, grown("a", "b", "c", "d"), 3)
    assert codes(response) == [("a", 0), ("c", 0), ("b", REFUSED), ("d", REFUSED)]
    assert rules.seen == ["a", "c"]
    assert "User:ANONYMOUS may not ALTER" in response.results[2].error_message


@pytest.mark.parametrize("handler", [at_once, later, deferred])
async def test_handler_is_not_called_without_allowed_items(handler):
    rules = Rules()
    response = await answer(handler, rules, grown("a", "b"), 3)
    assert (codes(response), rules.seen) == ([("a", REFUSED), ("b", REFUSED)], [])


async def test_each_item_is_authorized_once():
    rules = Rules({(Operation.ALTER, TOPIC, "a")})
    response = await answer(at_once, rules, grown("a", "a"), 3)
    assert codes(response) == [("a", 0), ("a", 0)]
    assert rules.asked == [(Operation.ALTER, TOPIC, "a")]


async def test_cluster_permission_covers_every_item():
    @handles(
        CreatePartitionsRequest,
        versions="0-3",
        access=ALTER_TOPICS.or_cluster(Operation.CREATE),
        on_error=fail,
    )
    def handler(request, rules, call):
        return at_once(request, rules, call)

    rules = Rules({(Operation.CREATE, CLUSTER, CLUSTER_NAME)})
    assert codes(await answer(handler, rules, grown("a"), 3)) == [("a", 0)]
    assert codes(await answer(handler, Rules(), grown("a"), 3)) == [("a", REFUSED)]


async def test_items_may_be_names_themselves():
    def refuse(request, code, _message):
        return DeleteGroupsResponse(
            results=[
                DeletableGroupResult(group_id=name, error_code=code)
                for name in request.groups_names
            ]
        )

    access = groups(Operation.DELETE, "groups_names.*", "results")

    @handles(DeleteGroupsRequest, versions="0-2", access=access, on_error=refuse)
    def handler(request, rules, call):
        return refuse(request, ErrorCode.NONE, "")

    rules = Rules({(Operation.DELETE, GROUP, "g")})
    response = await answer(handler, rules, DeleteGroupsRequest(groups_names=["h", "g"]), 2)
    found = [(result.group_id, result.error_code) for result in response.results]
    assert found == [("g", 0), ("h", ErrorCode.GROUP_AUTHORIZATION_FAILED)]


async def test_invisible_items_are_not_listed():
    access = groups(Operation.DESCRIBE, listed="groups.group_id").or_cluster(Operation.DESCRIBE)

    @handles(ListGroupsRequest, versions="0-5", access=access)
    def handler(request, rules, call):
        names = ("a", "b", "c")
        return ListGroupsResponse(
            groups=[ListedGroup(group_id=name, protocol_type="") for name in names]
        )

    async def listed(*allowed):
        response = await answer(handler, Rules(set(allowed)), ListGroupsRequest(), 5)
        return [group.group_id for group in response.groups]

    assert await listed((Operation.DESCRIBE, GROUP, "b")) == ["b"]
    assert await listed((Operation.DESCRIBE, CLUSTER, CLUSTER_NAME)) == ["a", "b", "c"]
    assert await listed() == []


def heart(access):
    @handles(HeartbeatRequest, versions="0-4", access=access)
    def handler(request, rules, call):
        rules.seen.append(request.group_id)
        return HeartbeatResponse()

    return handler


BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


async def test_request_for_one_resource_is_refused_whole():
    handler = heart((groups(Operation.READ, "group_id"), cluster(Operation.DESCRIBE)))
    allowed = {(Operation.READ, GROUP, "g"), (Operation.DESCRIBE, CLUSTER, CLUSTER_NAME)}
    rules = Rules(allowed)
    assert (await answer(handler, rules, BEAT, 4)).error_code == 0
    assert rules.seen == ["g"]
    for code, missing in zip(
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        sorted(allowed, key=lambda entry: entry[0]),
        strict=True,
    ):
        rules = Rules(allowed - {missing})
        assert (await answer(handler, rules, BEAT, 4)).error_code == code
        assert rules.seen == []


async def test_one_of_several_operations_suffices():
    handler = heart(cluster(Operation.ALTER, Operation.CLUSTER_ACTION))
    rules = Rules({(Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)})
    assert (await answer(handler, rules, BEAT, 4)).error_code == 0


@pytest.mark.parametrize(
    "access",
    [
        open_to_all("a test"),
        BY_CONTROLLER,
        groups(Operation.READ, "group_id").in_handler("a test"),
    ],
)
def test_request_without_authorization_costs_nothing(access):
    handler = heart(access)
    rules = Rules()
    for judge in (rules, None):
        routes = Registry((handler,), judge=judge).routes()
        route = next(route for route in routes if route.request is HeartbeatRequest)
        assert route.handler is handler
    assert rules.asked == []


async def test_node_without_authorizer_calls_handler_directly():
    rules = Rules(rules=False)
    assert codes(await answer(at_once, rules, grown("a", "b"), 3)) == [("a", 0), ("b", 0)]
    assert (rules.asked, rules.seen) == ([], ["a", "b"])


async def test_failing_authorizer_refuses_request():
    class Unknowing(Rules):
        def allows(self, *_, **_named):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "not yet")

    rules = Unknowing()
    response = await answer(heart(cluster(Operation.ALTER)), rules, BEAT, 4)
    assert (response.error_code, rules.seen) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])


async def test_refusal_without_answer_closes_the_connection():
    @handles(CreatePartitionsRequest, versions="0-3", access=ALTER_TOPICS, on_error=fail)
    def handler(request, rules, call):
        return None

    rules = Rules({(Operation.ALTER, TOPIC, "a")})
    with pytest.raises(CloseConnection):
        await answer(handler, rules, grown("a", "b"), 3)


def test_handler_without_access_declaration_is_refused():
    with pytest.raises(TypeError, match="access"):
        handles(HeartbeatRequest, versions="0-4")  # type: ignore[call-arg]

    def silent(request, rules, call):
        raise AssertionError

    silent.__handles__ = Handled(HeartbeatRequest, HeartbeatRequest.VERSIONS, ())
    with pytest.raises(AssertionError, match="does not say who may ask"):
        Registry((silent,))

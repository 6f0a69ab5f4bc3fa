"""Guards of handlers of each kind, with enough items for several turns, compared with a twin that has no turns."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
import trio

from tests.broker.calls import connection
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from trimaran.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponseTopic,
)
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.security.acls import Operation, ResourceType
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests import guard
from trimaran.wire.transport.requests.access import (
    ITSELF,
    JudgedBy,
    Need,
    cluster,
    configs,
    groups,
    needs_of,
    open_to_all,
    tokens,
    topics,
    transactional_ids,
    users,
)
from trimaran.wire.transport.requests.handles import handles
from trimaran.wire.transport.scheduling.effects import Blocking, Compute, Wait

JUDGED = 200

COUNTS = (1, JUDGED, JUDGED + 1, 2 * JUDGED + 1)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass
class Rules:
    """An authorizer that allows the operations in `allowed` for a name, and records each query."""

    allowed: object
    asked: list = field(default_factory=list)
    seen: list | None = None

    def judges(self, context):
        return True

    def allows(self, context, call, operation, resource_type, name, *, asked_for):
        self.asked.append((operation, resource_type, name, asked_for))
        return self.allowed(name)


def answered(names, code=ErrorCode.NONE):
    topics = [OffsetDeleteResponseTopic(name=name, partitions=[]) for name in names]
    return OffsetDeleteResponse(error_code=code, topics=topics)


def refused(request, code, _message):
    """Returns the refusal of each topic under another name, because it has no error code."""
    return answered([f"{topic.name}:{code}" for topic in request.topics])


def deleting(access, kind, code=ErrorCode.NONE):
    """Returns a handler of that kind, which deletes the requested topics, or answers with `code`."""

    def at_once(request, rules, call):
        rules.seen = [topic.name for topic in request.topics]
        return answered(rules.seen if code == ErrorCode.NONE else [], code)

    def later(request, rules, call):
        yield Blocking(trio.lowlevel.checkpoint)
        return at_once(request, rules, call)

    def deferred(request, rules, call):
        async def finish():
            return at_once(request, rules, call)

        return (yield Wait(finish))

    handler = {"at once": at_once, "later": later, "deferred": deferred}[kind]
    return handles(OffsetDeleteRequest, versions="0", access=access, on_error=refused)(handler)


KINDS = ("at once", "later", "deferred")


def asking_for(names):
    topics = [OffsetDeleteRequestTopic(name=name, partitions=[]) for name in names]
    return OffsetDeleteRequest(group_id="g", topics=topics)


async def answer(handler, rules, request, version=0, *, heavy=False):
    frame = memoryview(bytearray(encode_request(request, version, 7, "test")))
    registry = Registry((handler,), judge=rules)
    if heavy:
        said = await registry.dispatch_heavy(frame, rules, connection())
    else:
        said = registry.dispatch(frame, rules, connection())
    data = bytes(await said.finish() if hasattr(said, "finish") else said)
    _, body = decode_response_header(data, request.KEY, version)
    return RESPONSES[request.KEY].decode(data[body:], version)


def is_even(name):
    return int(name) % 2 == 0


DELETE_TOPICS = topics(Operation.READ, "topics.name", "topics")


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_allowed_items_are_handled_and_refused_ones_appended(kind, heavy):
    for count in COUNTS:
        names = [str(number) for number in range(count)]
        rules = Rules(is_even)
        response = await answer(
            deleting(DELETE_TOPICS, kind), rules, asking_for([*names, *names]), heavy=heavy
        )
        allowed = [name for name in [*names, *names] if is_even(name)]
        denied = [f"{name}:{DENIED}" for name in [*names, *names] if not is_even(name)]
        assert rules.seen == allowed
        assert [topic.name for topic in response.topics] == allowed + denied
        assert rules.asked == [(Operation.READ, ResourceType.TOPIC, name, True) for name in names]


@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_request_without_items_skips_the_authorizer(kind, heavy):
    rules = Rules(is_even)
    await answer(deleting(DELETE_TOPICS, kind), rules, asking_for([]), heavy=heavy)
    assert (rules.seen, rules.asked) == ([], [])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("names", "code", "told"),
    [
        (["1", "2"], ErrorCode.NONE, ["2", f"1:{DENIED}"]),
        (["1"], ErrorCode.NONE, [f"1:{DENIED}"]),
        (["1", "2"], ErrorCode.GROUP_ID_NOT_FOUND, []),
        (["1"], ErrorCode.GROUP_ID_NOT_FOUND, []),
    ],
)
async def test_declared_whole_error_precedes_refused_items(kind, names, code, told):
    """The same holds for an unknown group in OffsetDelete: the handler is called even if no item is left."""
    rules = Rules(is_even)
    handler = deleting(DELETE_TOPICS.with_error_of_whole(), kind, code)
    response = await answer(handler, rules, asking_for(names))
    assert rules.seen == [name for name in names if is_even(name)]
    assert (response.error_code, [topic.name for topic in response.topics]) == (code, told)


@pytest.mark.parametrize("kind", KINDS)
async def test_handler_gets_only_the_allowed_items(kind):
    rules = Rules(is_even)
    handler = deleting(DELETE_TOPICS, kind, ErrorCode.GROUP_ID_NOT_FOUND)
    response = await answer(handler, rules, asking_for(["1"]))
    assert rules.seen is None
    assert [topic.name for topic in response.topics] == [f"1:{DENIED}"]
    response = await answer(handler, rules, asking_for(["1", "2"]))
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert [topic.name for topic in response.topics] == [f"1:{DENIED}"]


LISTED = groups(Operation.DESCRIBE, listed="groups.group_id")


def listing(names, *, is_generator):
    def at_once(request, rules, call):
        return ListGroupsResponse(
            groups=[ListedGroup(group_id=name, protocol_type="") for name in names]
        )

    def later(request, rules, call):
        yield Blocking(trio.lowlevel.checkpoint)
        return at_once(request, rules, call)

    handler = later if is_generator else at_once
    return handles(ListGroupsRequest, versions="0-5", access=LISTED)(handler)


@pytest.mark.parametrize("is_generator", [False, True])
async def test_allowed_listed_items_keep_their_order(is_generator):
    for count in (0, *COUNTS):
        names, rules = [str(number) for number in range(count)], Rules(is_even)
        response = await answer(
            listing(names, is_generator=is_generator), rules, ListGroupsRequest(), 5
        )
        assert [group.group_id for group in response.groups] == [
            name for name in names if is_even(name)
        ]
        # A group that is only listed was not requested: a denial is neither a refusal of the request nor a failure in
        # logs.
        group = ResourceType.GROUP
        assert rules.asked == [(Operation.DESCRIBE, group, name, False) for name in names]


async def test_last_operation_alone_counts_as_requested():
    @handles(
        HeartbeatRequest, versions="0-4", access=cluster(Operation.ALTER, Operation.CLUSTER_ACTION)
    )
    def handler(request, rules, call):
        return HeartbeatResponse()

    rules = Rules(lambda name: False)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    response = await answer(handler, rules, request, 4)
    assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(operation, asked_for) for operation, _, _, asked_for in rules.asked] == [
        (Operation.ALTER, False),
        (Operation.CLUSTER_ACTION, True),
    ]


CODES = [
    (topics, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    (groups, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    (transactional_ids, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
]


@pytest.mark.parametrize(("need", "code"), CODES)
async def test_resource_kind_is_refused_by_its_code(need, code):
    handler = handles(
        HeartbeatRequest, versions="0-4", access=need(Operation.READ, asked="group_id")
    )(lambda *_: HeartbeatResponse())
    rules = Rules(lambda name: name == "mine")
    for name, expected in (("mine", ErrorCode.NONE), ("other", code)):
        request = HeartbeatRequest(group_id=name, generation_id=1, member_id="m")
        assert (await answer(handler, rules, request, 4)).error_code == expected


def needs_and_what_they_say():
    write, alter = Operation.WRITE, Operation.ALTER
    given = {"asked": "a.b", "answered": "c", "listed": "d.e"}
    kinds = {
        topics: ResourceType.TOPIC,
        groups: ResourceType.GROUP,
        transactional_ids: ResourceType.TRANSACTIONAL_ID,
    }
    for function, kind in kinds.items():
        yield function(write, "a.b", "c", listed="d.e"), Need(kind, (write,), **given)
        yield function(write), Need(kind, (write,))
    yield cluster(alter, write), Need(ResourceType.CLUSTER, (alter, write))
    several = groups(write, f"a.{ITSELF}").or_cluster(alter, write)
    yield several, Need(ResourceType.GROUP, (write,), "a.*", on_cluster=(alter, write))
    anyway = topics(write, "a.b", "c").with_error_of_whole()
    yield anyway, Need(ResourceType.TOPIC, (write,), "a.b", "c", asks_anyway=True)


def needs_that_others_judge():
    operation, by_handler = Operation.DESCRIBE, JudgedBy.HANDLER
    kinds = {tokens: ResourceType.DELEGATION_TOKEN, users: ResourceType.USER}
    whys = {tokens: "each token is checked", users: "owners need nothing"}
    for function, kind in kinds.items():
        expected = Need(kind, (operation,), judged_by=by_handler, why=whys[function])
        yield function(operation), expected
    anyone = Need(ResourceType.UNKNOWN, (), judged_by=JudgedBy.NOBODY, why="a test")
    yield open_to_all("a test"), anyone
    mine = Need(ResourceType.GROUP, (operation,), "a", judged_by=by_handler, why="mine")
    yield groups(operation, "a").in_handler("mine"), mine


def test_each_declaration_has_exact_needs():
    for need, expected in needs_and_what_they_say():
        assert need == expected
        assert need.judged_by is JudgedBy.REGISTRY
        assert needs_of(need) == (need,)


def test_exempt_needs_state_place_and_reason():
    for need, expected in needs_that_others_judge():
        assert need == expected
    kinds = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
    why = "depends on the resource of each config"
    assert configs(Operation.ALTER_CONFIGS) == tuple(
        Need(kind, (Operation.ALTER_CONFIGS,), "resources", judged_by=JudgedBy.HANDLER, why=why)
        for kind in kinds
    )
    assert needs_of(None) == ()
    assert needs_of(configs(Operation.ALTER)) == configs(Operation.ALTER)


def effects_of(steps):
    """Returns the effects of a handler, each answered as the transport does, and its response."""
    found, given = [], None
    while True:
        try:
            effect = steps.send(given)
        except StopIteration as end:
            return found, end.value
        found.append(effect)
        given = effect.call() if isinstance(effect, Compute) else None


@pytest.mark.parametrize("count", [1, 2, 201])
def test_boundary_separates_two_names(count):
    names = [str(number) for number in range(count)]
    registry = Registry((deleting(DELETE_TOPICS, "at once"),), judge=(rules := Rules(is_even)))
    handler = next(
        route.handler for route in registry.routes() if route.request is OffsetDeleteRequest
    )
    call = SimpleNamespace(connection=connection(), header=SimpleNamespace(api_version=0))
    effects, response = effects_of(handler(asking_for([*names, *names]), rules, call))
    *boundaries, divides = effects
    assert boundaries == [None] * (count - 1)
    assert divides.cost_bytes == 2 * count * 2048
    assert len(response.topics) == 2 * count


def test_boundary_separates_two_listed_items():
    names = [str(number) for number in range(5)]
    registry = Registry((listing(names, is_generator=False),), judge=(rules := Rules(is_even)))
    handler = next(
        route.handler for route in registry.routes() if route.request is ListGroupsRequest
    )
    call = SimpleNamespace(connection=connection(), header=SimpleNamespace(api_version=5))
    effects, response = effects_of(handler(ListGroupsRequest(), rules, call))
    assert effects == [None] * 5
    assert [group.group_id for group in response.groups] == ["0", "2", "4"]


@pytest.mark.parametrize("is_generator", [False, True])
async def test_cluster_permission_reveals_the_whole_list(is_generator):
    def handler(request, rules, call):
        listed = [ListedGroup(group_id=name, protocol_type="") for name in "abc"]
        return ListGroupsResponse(groups=listed)

    def later(request, rules, call):
        yield Blocking(trio.lowlevel.checkpoint)
        return handler(request, rules, call)

    access = LISTED.or_cluster(Operation.DESCRIBE_CONFIGS)
    declared = handles(ListGroupsRequest, versions="0-5", access=access)
    behind = declared(later if is_generator else handler)
    rules = Rules(lambda name: name == "kafka-cluster")
    response = await answer(behind, rules, ListGroupsRequest(), 5)
    assert [group.group_id for group in response.groups] == ["a", "b", "c"]
    kind = ResourceType.CLUSTER
    assert set(rules.asked) == {(Operation.DESCRIBE_CONFIGS, kind, "kafka-cluster", False)}
    nobody = Rules(lambda name: False)
    assert (await answer(behind, nobody, ListGroupsRequest(), 5)).groups == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("heavy", [False, True])
async def test_handler_is_not_called_for_empty_rest(kind, heavy):
    names = [str(2 * number + 1) for number in range(401)]
    rules = Rules(is_even)
    handler = deleting(DELETE_TOPICS, kind)
    response = await answer(handler, rules, asking_for(names), heavy=heavy)
    assert rules.seen is None
    assert [topic.name for topic in response.topics] == [f"{name}:{DENIED}" for name in names]


FAILED = ErrorCode.COORDINATOR_NOT_AVAILABLE


def failing(kind, on_error=None):
    """Returns a handler that fails; `on_error` builds the response with which a deferred handler answers the failure
    itself.
    """

    def at_once(request, rules, call):
        raise KafkaError(FAILED, "gone")

    def later(request, rules, call):
        yield Blocking(trio.lowlevel.checkpoint)
        raise KafkaError(FAILED, "gone")

    def deferred(request, rules, call):
        async def finish():
            raise KafkaError(FAILED, "gone")

        try:
            yield Wait(finish)
        except KafkaError as error:
            if on_error is None:
                raise
            return on_error(error.code, error.message)

    handler = {"at once": at_once, "later": later, "deferred": deferred}[kind]
    declared = handles(OffsetDeleteRequest, versions="0", access=DELETE_TOPICS, on_error=refused)
    return declared(handler)


@pytest.mark.parametrize("count", [2, 402])
async def test_failed_deferred_answer_names_each_refused_item(count):
    names = [str(number) for number in range(count)]
    odd = [f"{name}:{DENIED}" for name in names if not is_even(name)]
    own = failing("deferred", lambda code, message: answered([f"own {code} {message}"]))
    response = await answer(own, Rules(is_even), asking_for(names))
    assert [topic.name for topic in response.topics] == [f"own {FAILED} gone", *odd]


@pytest.mark.parametrize("kind", KINDS)
async def test_failed_large_request_is_answered_by_own_errors(kind):
    names = [str(2 * number) for number in range(401)]
    handler = failing(kind)
    response = await answer(handler, Rules(is_even), asking_for(names), heavy=True)
    assert [topic.name for topic in response.topics] == [f"{name}:{FAILED}" for name in names]


def test_empty_request_authorizes_no_item():
    one = guard._Guard(DELETE_TOPICS, Rules(is_even), refused)
    call = SimpleNamespace(connection=connection(), header=SimpleNamespace(api_version=0))
    for topics_asked, is_judged in ((None, False), ([], False), (["a"], True)):
        asked = SimpleNamespace(topics=topics_asked)
        assert one._is_judged_by_item(asked, None, call) is is_judged


async def test_successful_deferred_answer_names_each_refused_item():
    def deferred(request, rules, call):
        async def finish():
            return answered([f"done {topic.name}" for topic in request.topics])

        return (yield Wait(finish))

    declared = handles(OffsetDeleteRequest, versions="0", access=DELETE_TOPICS, on_error=refused)
    response = await answer(declared(deferred), Rules(is_even), asking_for(["1", "2", "3"]))
    names = [topic.name for topic in response.topics]
    assert names == ["done 2", f"1:{DENIED}", f"3:{DENIED}"]

"""Default-deny: an unauthorized client gets nothing from any API, in any version, on brokers and controllers.

The same requests go to Apache Kafka (`tests/interop/authorization`).
"""

import pytest

from tests.broker.calls import connection
from tests.broker.handlers.broker_client import AUTHORIZER, broker_client
from tests.cluster.data_side import replaced
from tests.interop.authorization.answers import comparable
from tests.interop.authorization.requests import BY_NAME, LISTENERS, World, request_of
from tests.test_access import OPEN, REGISTRIES
from trimaran.wire.errors import CloseConnection, ErrorCode
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.security.principal import Principal

E = ErrorCode
REFUSALS = {entry for entry in E if entry.name.endswith("AUTHORIZATION_FAILED")}
# Ids are not secret, and an unauthenticated client is refused before its tokens are checked.
REFUSALS |= {E.UNKNOWN_TOPIC_ID, E.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
TITLES = {"CLIENTS": "Brokers", "ADMINS": "Controllers"}


def codes(told):
    """Returns every error code in the responses for items."""
    for name, value in told:
        if name in ("error_code", "partition_error_code"):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                yield from codes(item)


def gives_nothing(told):
    """Whether it is refused as a whole, or each item is, or it has no items where it could have some."""
    if told == "closed":
        return True
    if any(name == "error_code" and value in REFUSALS for name, value in told):
        return True
    lists = [value for _, value in told if isinstance(value, tuple)]
    items = [code for some in lists for item in some for code in codes(item)]
    if any(lists):
        return REFUSALS & set(items) and E.NONE not in items
    return bool(lists)


async def answer(registry, context, request, version):
    client = connection()
    client.principal = Principal("nobody")
    frame = memoryview(bytearray(encode_request(request, version, 7, "test")))
    try:
        said = registry.dispatch(frame, context, client)
        data = bytes(await said.finish() if hasattr(said, "finish") else said)
    except CloseConnection:
        return None
    _, body = decode_response_header(data, request.KEY, version)
    return RESPONSES[request.KEY].decode(data[body:], version)


@pytest.fixture
async def contexts(tmp_path):
    async with broker_client(tmp_path, **AUTHORIZER) as one:
        await one.create("orders", "orders-eu", "secret")
        ids = {name: topic.id for name, topic in one.image.topics.by_name.items()}
        (controller,) = one.cluster.controllers.values()
        yield {"CLIENTS": one.broker.contexts, "ADMINS": controller.context}, ids


async def test_unauthorized_client_gets_nothing(contexts):
    contexts, ids = contexts
    wrong = []
    for listener, builders in LISTENERS.items():
        title = TITLES[listener]
        registry = REGISTRIES[title]
        world = World(None)
        world.ids = ids
        for key, handled in registry.handled().items():
            name = handled.request.__name__.removesuffix("Request")
            if name in OPEN[title]:
                continue
            versions = registry.api_versions()[key]
            for version in range(versions.low, versions.high + 1):
                request = request_of(name, builders, version, world, f"{name}{version}")
                told = comparable(await answer(registry, contexts[listener], request, version), {})
                if not gives_nothing(told):
                    wrong.append((listener, name, version, request, told))
    assert not [(*item[:3], item[4]) for item in wrong]


async def test_requests_fail_before_acls_are_loaded(contexts):
    """Nothing is revealed either: every API that is authorized immediately returns an error."""
    contexts, ids = contexts
    unloaded = type(contexts["CLIENTS"].data.authorizer)()
    context = replaced(contexts["CLIENTS"], authorizer=unloaded)
    for name in ("Produce", "Fetch", "Metadata", "ListGroups", "DescribeTopicPartitions"):
        registry = REGISTRIES["Brokers"]
        version = registry.api_versions()[BY_NAME[name].KEY].high
        world = World(None)
        world.ids = ids
        request = request_of(name, LISTENERS["CLIENTS"], version, world, name)
        told = comparable(await answer(registry, context, request, version), {})
        assert told == "closed" or set(codes(told)) - {E.NONE}, (name, told)

"""The rights for every request are declared, refer to existing resources, and match `docs/access.md`
(`REWRITE_TRANSCRIPTS=1` writes it).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tests import datadriven
from trimaran.broker.handlers.registry import broker_registry
from trimaran.quorum.controller.handlers.envelope import FORWARDED
from trimaran.quorum.controller.handlers.registry import controller_registry
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.schema import Message, Struct
from trimaran.wire.transport.dispatch.registry import Registry
from trimaran.wire.transport.requests.access import BY_CONTROLLER, ITSELF, JudgedBy, Need, needs_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "access.md"
REGISTRIES = {"Brokers": broker_registry(), "Controllers": controller_registry()}
HEAD = """# What a request needs

Every request needs an operation on a resource, or is open to all. The names are Kafka's
(`AclOperation`, `ResourceType`). Handlers declare it: `@handles(…, access=…)`.
This page is generated from that: `REWRITE_TRANSCRIPTS=1 pytest tests/test_access.py`.

If the node has an authorizer, an unauthorized client is refused ([security.md](security.md)):

- **by the registry**: before the handler is called; of several items, only the unauthorized ones are refused.
- **by the handler**: the column "named by" has the reason.
- **by the controller**: brokers forward the request. The controller authorizes it for the client's principal.
- **none**: it is open to all connected clients.
"""


def kafka_name(one) -> str:
    return "".join(word.capitalize() for word in one.name.split("_"))


def judged(need: Need) -> str:
    if need == BY_CONTROLLER:
        return "by the controller"
    return "none" if need.judged_by is JudgedBy.NOBODY else f"by the {need.judged_by.name.lower()}"


def cells(need: Need) -> list[str]:
    operation = " or ".join(map(kafka_name, need.operations)) or "–"
    resource = kafka_name(need.resource_type) if need.operations else "–"
    if need.on_cluster:
        others = " or ".join(map(kafka_name, need.on_cluster))
        resource += f", or {others} on the Cluster"
    fields = ", ".join(f"`{path}`" for path in (need.asked,) if path)
    if need.listed:
        fields += f"{', ' if fields else ''}listed `{need.listed}`"
    why = "" if need == BY_CONTROLLER else need.why
    what = "; ".join(part for part in (fields, why) if part)
    return [operation, resource, what, judged(need)]


def table(registry: Registry) -> list[str]:
    lines = ["| API | operation | resource | named by | judged |", "|---|---|---|---|---|"]
    named = {
        exchange.request.__name__.removesuffix("Request"): exchange
        for exchange in registry.handled().values()
    }
    for api, handled in sorted(named.items()):
        name = f"{api} ({handled.request.KEY})"
        for need in needs_of(handled.access):
            lines.append(f"| {name} | " + " | ".join(cells(need)) + " |")
            name = ""
    return lines


def test_page_matches_declarations():
    tables = [
        f"\n## {title}\n\n" + "\n".join(table(registry)) for title, registry in REGISTRIES.items()
    ]
    page = HEAD + "\n".join(tables) + "\n"
    if datadriven.REWRITE:
        PAGE.write_text(page)
    assert PAGE.read_text() == page


def structs(hint) -> Iterator[type[Struct]]:
    if isinstance(hint, type) and issubclass(hint, Struct):
        yield hint
    for part in get_args(hint):
        yield from structs(part)


def check_path(message: type[Message], path: str) -> None:
    field, _, name = path.partition(".")
    hints = get_type_hints(message)
    assert field in hints, f"{message.__name__} has no {field}"
    if name and name != ITSELF:
        (item,) = structs(hints[field])
        assert name in get_type_hints(item), f"{path} of {message.__name__}"


@pytest.mark.parametrize("title", REGISTRIES)
def test_paths_are_of_the_messages(title):
    for key, handled in REGISTRIES[title].handled().items():
        for need in needs_of(handled.access):
            if need.asked:
                check_path(REQUESTS[key], need.asked)
            if need.answered:
                check_path(RESPONSES[key], need.answered)
            if need.listed:
                check_path(RESPONSES[key], need.listed)


def test_forwarded_requests_are_judged_by_controller():
    at_broker = REGISTRIES["Brokers"].handled()
    passed_on = {key for key, value in at_broker.items() if BY_CONTROLLER in needs_of(value.access)}
    own = {
        exchange.request.KEY
        for exchange in FORWARDED.handled().values()
        if exchange.request.KEY != 18
    }
    assert passed_on == own - {17, 36}
    for key in passed_on:
        assert FORWARDED.handled()[key] == REGISTRIES["Controllers"].handled()[key]


# Requests without authorization: the connection itself, its client's metrics, tokens, which contain their rights, and
# broker discovery.
OPEN = {
    "Brokers": {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "DescribeCluster",
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    },
    "Controllers": {
        "ApiVersions",
        "SaslHandshake",
        "SaslAuthenticate",
        "ExpireDelegationToken",
        "RenewDelegationToken",
    },
}


@pytest.mark.parametrize("title", REGISTRIES)
def test_every_other_request_is_authorized(title):
    found = {
        handled.request.__name__.removesuffix("Request")
        for handled in REGISTRIES[title].handled().values()
        if any(need.judged_by is JudgedBy.NOBODY for need in needs_of(handled.access))
    }
    assert found == OPEN[title]

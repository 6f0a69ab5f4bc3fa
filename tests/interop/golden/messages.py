"""Compares the codecs for every message that Apache Kafka generates, in every version. A pair is one class in one
version. We and Kafka encode its samples from the same JSON: the bytes must be equal, and each side must read the
other's. In flexible versions each side also writes tagged fields that the other one does not know, in every structure,
and must skip unknown ones.
"""

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.interop.golden.kafka_json import Names, is_named, kafka_json, names_of
from tests.interop.golden.later import of_later
from tests.interop.golden.oracle import Oracle
from tests.wire.declared import MESSAGES
from tests.wire.random_messages import plan_of, random_message, samples
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.messages.header import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from trimaran.wire.messages.registry import REQUESTS, RESPONSES
from trimaran.wire.schema import Message

OURS = {cls.__name__: cls for cls in MESSAGES}
PROTOCOL = "org.apache.kafka.common.message."

# Prefixes of generated classes that trimaran never encodes or decodes.
LEFT_OUT = {
    "AbortedTxn": "an entry of a transaction index, compared with our file",
    "QuorumStateData": "the JSON file quorum-state, never bytes",
    "RequestHeaderData": "compared for each API",
    "ResponseHeaderData": "compared for each API",
}


# Records of an early-access feature in 3.9, without a promise of compatibility.
EARLY_ACCESS = frozenset({"ShareGroupMetadataValue v0"})


class Pair(NamedTuple):
    """One of Kafka's classes in one version; `cls` is None if we lack the class or version."""

    family: str
    name: str
    version: int
    cls: type[Message] | None
    our_version: int
    names: Names

    def __str__(self) -> str:
        return f"{self.name.rpartition('.')[2]} v{self.version}"


class Outcome(NamedTuple):
    """The result of a pair; `failure` is None if all samples agree."""

    family: str
    label: str
    failure: str | None


def family_of(name: str) -> str:
    if name.endswith("RequestData"):
        return "requests"
    if name.endswith("ResponseData"):
        return "responses"
    if name.startswith("org.apache.kafka.common.metadata."):
        return "metadata records"
    if ".coordinator." in name:
        return "coordinator records"
    return "embedded data" if name.startswith(PROTOCOL) else "storage records"


def pairs(listing: dict) -> Iterator[Pair]:
    """Returns all pairs of a Kafka version, without message versions that need a special configuration."""
    stable = {api["key"]: api["high"] for api in listing["apis"]}
    for found in listing["messages"]:
        name = found["class"]
        simple = name.rpartition(".")[2]
        if simple.startswith(tuple(LEFT_OUT)):
            continue
        cls = ours_of(found)
        is_api = family_of(name) in ("requests", "responses")
        high = stable.get(found["key"], found["high"]) if is_api else found["high"]
        for version in range(found["low"], high + 1):
            ours = our_version(cls, simple, version)
            there = cls is not None and ours in cls.VERSIONS
            names = names_of(found["fields"])
            yield Pair(family_of(name), name, version, cls if there else None, ours, names)


def ours_of(found: dict) -> type[Message] | None:
    """Returns our class by API key, because ListClientMetricsResources was renamed, or by name."""
    match family_of(found["class"]):
        case "requests":
            return REQUESTS.get(found["key"])
        case "responses":
            return RESPONSES.get(found["key"])
    simple = found["class"].rpartition(".")[2]
    return OURS.get(simple) or OURS.get(simple.removesuffix("Data"))


def our_version(cls: type[Message] | None, simple: str, version: int) -> int:
    """Returns our version: before 4.0 a coordinator's key had its type as its version, with the same bytes."""
    is_key = simple.endswith("Key") and cls is not None
    return 0 if is_key and version not in cls.VERSIONS else version


def check(oracle: Oracle, pair: Pair, count: int) -> Outcome:
    if pair.cls is None:
        return Outcome(pair.family, str(pair), "is not declared")
    messages = [known(pair, m) for m in samples(pair.cls, pair.our_version, count)]
    try:
        questions = [question(pair, message) for message in messages]
    except KeyError as name:
        return Outcome(pair.family, str(pair), f"Kafka's class has no field {name}")
    for message, asked, answer in zip(messages, questions, oracle.ask(questions), strict=True):
        failure = difference(pair, message, asked, answer)
        if failure:
            return Outcome(pair.family, str(pair), f"{failure}: {message!r:.1000}")
    return Outcome(pair.family, str(pair), None)


def known(pair: Pair, value: Any) -> Any:
    """Returns the message without tagged fields that are newer than the given version."""
    if isinstance(value, list):
        return [known(pair, item) for item in value]
    if not isinstance(value, Struct):
        return value
    plan = plan_of(type(value), pair.our_version)
    kept = [*plan.plain, *(p for p in plan.tagged if is_named(p.name, pair.names))]
    return type(value)(**{p.name: known(pair, getattr(value, p.name)) for p in kept})


def question(pair: Pair, message: Message) -> dict:
    version = pair.our_version
    asked = {
        "op": "message",
        "class": pair.name,
        "version": pair.version,
        "json": kafka_json(message, version, pair.names, sizes=False),
        "bytes": text_of(message.encode(version)),
    }
    if version in pair.cls.FLEXIBLE:
        asked["later"] = text_of(of_later(message).encode(version))
        asked["tags"] = True
    return asked


def difference(pair: Pair, message: Message, asked: dict, answer: dict) -> str | None:
    """Returns the difference between Kafka's result and ours, or None."""
    version = pair.our_version
    expected = kafka_json(message, version, pair.names, sizes=True)
    if "error" in answer:
        return f"Kafka refuses it ({answer['error']})"
    if answer["encoded"] != asked["bytes"]:
        return f"Kafka writes {answer['encoded']}, we write {asked['bytes']}"
    if answer["again"] != asked["bytes"]:
        return "Kafka writes what it read from us as other bytes"
    if answer["json"] != expected:
        return f"Kafka reads {answer['json']}"
    if answer.get("later_json", expected) != expected:
        return f"with tags from later versions Kafka reads {answer['later_json']}"
    for way in ("encoded", "tagged"):
        if way in answer:
            found = pair.cls.decode(base64.b64decode(answer[way]), version)
            if found != message:
                return f"we read ({way}) {found!r}"
    return None


# ---- headers

CLIENT_IDS = (None, "", "client", "größer \U0001f600", "x" * 300)
CORRELATION_IDS = (0, 1, -1, 2**31 - 1, -(2**31))


def check_headers(oracle: Oracle, api: dict) -> Iterator[Outcome]:
    """Compares the headers of requests and responses of one API: their versions and bytes."""
    key = api["key"]
    for version, (request, response) in enumerate(api["headers"], api["low"]):
        for table, header, check_one in (
            (REQUESTS, request, request_header_difference),
            (RESPONSES, response, response_header_difference),
        ):
            label = f"header v{header} of api {key} v{version}"
            failure = "is not declared"
            if key in table and version in table[key].VERSIONS:
                failure = check_one(oracle, table[key], version, header)
            yield Outcome("headers", label, failure)


def request_header_difference(oracle, cls, version: int, header_version: int) -> str | None:
    body = random_message(cls, version, 0)
    cases = list(zip(CLIENT_IDS, CORRELATION_IDS, strict=True))
    questions = []
    if header_version == 0:  # the header has no client id
        cases = [(None, number) for _, number in cases]
    for client_id, number in cases:
        ours = bytes(encode_request(body, version, number, client_id))
        fields = {"requestApiKey": cls.KEY, "requestApiVersion": version, "correlationId": number}
        if header_version > 0:
            fields["clientId"] = client_id
        header = ours.removesuffix(body.encode(version))
        questions.append(header_question("Request", header_version, fields, header))
    for (client_id, number), answer in zip(cases, oracle.ask(questions), strict=True):
        for way, encoded in header_ways(answer):
            found, position = decode_request_header(encoded)
            if (*found, position) != (cls.KEY, version, number, client_id, len(encoded)):
                return f"we read ({way}) {found}"
    return first_header_difference(oracle, questions)


def response_header_difference(oracle, cls, version: int, header_version: int) -> str | None:
    body = random_message(cls, version, 0)
    questions = []
    for number in CORRELATION_IDS:
        ours = bytes(encode_response(body, version, number))
        header = ours.removesuffix(body.encode(version))
        fields = {"correlationId": number}
        questions.append(header_question("Response", header_version, fields, header))
    for number, answer in zip(CORRELATION_IDS, oracle.ask(questions), strict=True):
        for way, encoded in header_ways(answer):
            if decode_response_header(encoded, cls.KEY, version) != (number, len(encoded)):
                return f"we read ({way}) another header"
    return first_header_difference(oracle, questions)


def header_question(kind: str, version: int, fields: dict, header: bytes) -> dict:
    asked = {
        "op": "message",
        "class": f"{PROTOCOL}{kind}HeaderData",
        "version": version,
        "json": fields,
        "bytes": text_of(header),
    }
    return asked | {"tags": True} if version >= (2 if kind == "Request" else 1) else asked


def header_ways(answer: dict) -> Iterator[tuple[str, bytes]]:
    for way in ("encoded", "tagged"):
        if way in answer:
            yield way, base64.b64decode(answer[way])


def first_header_difference(oracle: Oracle, questions: list[dict]) -> str | None:
    for asked, answer in zip(questions, oracle.ask(questions), strict=True):
        if "error" in answer:
            return f"Kafka refuses it ({answer['error']})"
        if answer["encoded"] != asked["bytes"] or answer["json"] != asked["json"]:
            return f"Kafka has {answer}, we {asked}"
    return None


def text_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


def check_all(oracle: Oracle, count: int) -> Iterator[Outcome]:
    """Compares every message and header of one Apache Kafka version, with `count` samples of each message."""
    (listing,) = oracle.ask([{"op": "list"}])
    for pair in pairs(listing):
        if oracle.version >= "4" or str(pair) not in EARLY_ACCESS:
            yield check(oracle, pair, count)
    for api in listing["apis"]:
        yield from check_headers(oracle, api)

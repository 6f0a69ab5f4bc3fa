"""Any data in a znode is repaired, obeyed or refused: each member of each znode's JSON is replaced in turn by an
unexpected value.
"""

import contextlib
import json
from collections.abc import Iterator

import pytest

from tests.zkcompat import build
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.zkcompat.comparing.differences import repair
from trimaran.zkcompat.legacy import change_notes
from trimaran.zkcompat.legacy.consumer_offsets import decode_offset
from trimaran.zkcompat.legacy.requests import (
    acls,
    configs,
    deletions,
    elections,
    reassignments,
    topics,
)
from trimaran.zkcompat.sections.acls import AclSection
from trimaran.zkcompat.sections.configs import resolve
from trimaran.zkcompat.sections.registry import sections_of
from trimaran.zkcompat.tree.operations import FoundZnode
from trimaran.zkcompat.znodes.acl_entries import AclResource
from trimaran.zkcompat.znodes.cluster_id import ClusterId
from trimaran.zkcompat.znodes.controller import ControllerEpochZnode, ControllerZnode
from trimaran.zkcompat.znodes.migration import Migration
from trimaran.zkcompat.znodes.mirror_report import MirrorReport

SESSION = 7
VERSIONS_MAX = 8
JUNK = (
    *(None, True, -1, 10**30, 1.5, 1e400, float("nan")),
    *("", "-", "--5", "٣", "\ud800", "a/b", "..", "9" * 25, "X://[::1]:" + "9" * 5000),
    *([], {}, [None], [[1]], ["A://b:1"], {"a": 1}, {"0": [True]}, {"-1": [1]}, {"0": [10**30]}),
)
BARE = (None, b"", b"\xff", b"null", b"9" * 5000, b"[" * 50_000, b"--5", "٣".encode())
IMAGE = build.image_of(
    build.broker(1),
    build.topic("t", build.T1),
    build.partition(build.T1, 0, [1]),
    build.config(2, "t", "retention.ms", "5"),
    build.config(4, "1", "log.cleaner.threads", "2"),
    build.quota("consumer_byte_rate", 8.0, user="u"),
    build.quota("consumer_byte_rate", 8.0, user="u", client="c"),
    build.quota("consumer_byte_rate", 8.0, client="c"),
    build.quota("connection_creation_rate", 8.0, ip="1.1.1.1"),
    build.scram("u"),
    build.token("token"),
    build.acl(1, "t"),
    build.producer_ids(1000),
)
SECTIONS = sections_of(build.CLUSTER_ID, secrets=True)
MIRRORED = [
    (section, name, path, znode)
    for section in SECTIONS
    for name in section.names(IMAGE)
    for path, znode in section.znodes(name, IMAGE)
    if znode.data is not None
]


def forged(data: bytes) -> Iterator[bytes | None]:
    yield from BARE
    for value in JUNK:
        yield _encoded(value)
    for place in _places(json.loads(data)):
        for value in JUNK:
            document = json.loads(data)
            _parent(document, place)[place[-1]] = value
            yield _encoded(document)
        document = json.loads(data)
        del _parent(document, place)[place[-1]]
        yield _encoded(document)


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _places(value: object, at: tuple = ()) -> Iterator[tuple]:
    if at:
        yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*at, key))


def _parent(document: object, place: tuple) -> object:
    for key in place[:-1]:
        document = document[key]
    return document


@pytest.mark.parametrize(
    ("section", "name", "path", "znode"), MIRRORED, ids=[path for _, _, path, _ in MIRRORED]
)
def test_mirrored_znodes_are_repaired(section, name, path, znode):
    owner = SESSION if znode.ephemeral else 0
    mended = 0
    for data in forged(znode.data):
        found = {path: FoundZnode(data, owner, 1)}
        for operation in repair(section, name, found, IMAGE, SESSION):
            mended += resolve(operation, found.get(operation.path)).path == path
    assert mended


CONFIGS = [path for _, _, path, _ in MIRRORED if path.startswith("/config/")]
ASKED = [
    *(
        (path, lambda data, path=path: configs.decide(_entity(path), data, IMAGE), b"")
        for path in CONFIGS
    ),
    ("acls", lambda data: [acls.decide(_resource(), data, IMAGE, AclSection())], b""),
    ("topic", lambda data: [topics.decide("t", data, None, IMAGE)], b""),
    ("new topic", lambda data: [topics.decide("new", data, data, IMAGE)], b""),
    (
        "reassignment",
        lambda data: [reassignments.advance(data, IMAGE, {}).request],
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}',
    ),
    (
        "election",
        lambda data: [elections.decide("/admin/preferred_replica_election", data, IMAGE)],
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    ),
    ("deletion", lambda data: [deletions.decide("/admin/delete_topics/t", data, IMAGE)], b"{}"),
]
SHOWN = {path: znode.data for _, _, path, znode in MIRRORED}
DATA = {
    "acls": SHOWN["/kafka-acl/Topic/t"],
    "topic": SHOWN["/brokers/topics/t"],
    "new topic": b'{"version":1,"partitions":{"0":[1]},"config":{"a":"b"}}',
}


def _entity(path):
    return configs.entity_of(path.removeprefix("/config/"))


def _resource():
    return AclResource.of_path("/kafka-acl/Topic/t")


@pytest.mark.parametrize(("what", "decide", "data"), ASKED, ids=[what for what, _, _ in ASKED])
def test_tool_writes_are_requested_or_refused(what, decide, data):
    """If no request can contain the value, its encoding fails, which counts as a refusal (`LegacyAdmin`)."""
    looked = 0
    for item in forged(data or DATA.get(what) or SHOWN[what]):
        for request in decide(item):
            looked += 1
            for quorum_request in request.quorum_requests if request is not None else ():
                for version in range(VERSIONS_MAX):
                    with contextlib.suppress(LocalProtocolError):
                        quorum_request.request.encode(version)
    assert looked


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/changes/n", b'{"version":2,"entity_path":"topics/t"}'),
        ("/config/changes/n", b'{"version":1,"entity_type":"topics","entity_name":"t"}'),
        ("/kafka-acl-extended-changes/n",
         b'{"version":1,"resourceType":"TOPIC","name":"t","patternType":"PREFIXED"}'),
        ("/kafka-acl-changes/n", b'{"Topic":"t"}'),
    ],
)  # fmt: skip
def test_note_names_an_entity_or_none(path, data):
    assert any(change_notes.tool_write_of_note(path, forgery) is None for forgery in forged(data))


REPORT = MirrorReport("h", 1, "s", 1, 1, 1, 1, 1, 1, 1, 1, ["a"], "")


@pytest.mark.parametrize(
    "value",
    [Migration(), ControllerZnode(1, 5, 5), ControllerEpochZnode(5), ClusterId("x"), REPORT],
    ids=lambda value: type(value).__name__,
)
def test_claims_and_reports_are_read_or_refused(value):
    refused = 0
    for data in forged(value.encode()):
        try:
            type(value).decode(data)
        except RemoteProtocolError:
            refused += 1
    assert refused


def test_offset_is_a_number_or_none():
    assert [decode_offset(data) for data in BARE] == [None] * len(BARE)

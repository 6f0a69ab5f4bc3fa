"""The client of registries, against a server that speaks HTTP: schemas with references, and one clear error each."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64encode
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.certificates import Certificates
from tests.wire.values.naive_registry import naive_registry
from trimaran.wire.security.tls.contexts import client_context, server_context
from trimaran.wire.values.failures import RegistryFailure, UnusableSchema
from trimaran.wire.values.framing import IdKind, SchemaId
from trimaran.wire.values.http_get import ANSWER_BYTES_MAX, HttpServer
from trimaran.wire.values.registry import REFERENCES_MAX, SchemaRegistry


def short(number):
    return SchemaId(IdKind.SHORT, number)


@pytest.fixture
def served():
    with naive_registry() as registry:
        yield registry


@pytest.fixture
def client(served):
    return SchemaRegistry(HttpServer(served.url))


def test_schemas_are_found_by_id_guid_and_subject(served, client):
    number = served.register("a/b-value", '"int"', "JSON")
    guid = SchemaId(IdKind.GUID, int(served.schemas[0]["guid"].replace("-", ""), 16))
    by_id = client.schema(short(number))
    assert (by_id.kind, by_id.text, by_id.references) == ("JSON", '"int"', {})
    assert client.schema(guid) == client.latest("a/b-value") == by_id


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("base", ["", "/below/it"])
def test_paths_are_relative_to_the_url(served, base, end):
    registry = SchemaRegistry(HttpServer(f"{served.url}{base}{end}"))
    with pytest.raises(UnusableSchema):
        registry.schema(short(7))
    assert served.asked == [f"{base}/schemas/ids/7"]


def test_references_precede_those_that_use_them(served, client):
    served.register("base", '"base"')
    served.register("left", '"left"', references=[("n.Base", "base")])
    served.register("right", '"right"', references=[("n.Base", "base")])
    number = served.register("top", '"top"', references=[("n.Left", "left"), ("n.Right", "right")])
    assert client.schema(short(number)).references == {
        "n.Base": '"base"',
        "n.Left": '"left"',
        "n.Right": '"right"',
    }
    assert list(client.schema(short(number)).references) == ["n.Base", "n.Left", "n.Right"]
    assert served.asked.count("/subjects/base/versions/1") == 2


def test_circular_references_are_refused(served, client):
    served.register("a", '"a"')
    number = served.register("b", '"b"', references=[("a", "a")])
    served.subjects["a"][0]["references"] = [{"name": "b", "subject": "b", "version": 1}]
    assert set(client.schema(short(number)).references) == {"a", "b"}


def test_too_many_references_are_refused(served, client):
    names = [(f"n{at}", "base") for at in range(REFERENCES_MAX + 1)]
    served.register("base", '"base"')
    number = served.register("top", '"top"', references=names)
    with pytest.raises(UnusableSchema, match=f"more than {REFERENCES_MAX} others"):
        client.schema(short(number))


def test_unknown_ids_are_named(served, client):
    with pytest.raises(UnusableSchema, match=r"/schemas/ids/7 answers 404 \(Schema not found\)"):
        client.schema(short(7))
    with pytest.raises(UnusableSchema, match="URL of its own API"):
        client.schema(SchemaId(IdKind.LONG, 7))
    assert served.asked == ["/schemas/ids/7"]


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html>", "answers no JSON: is it a registry"),
        (200, b"[" * 100_000, "answers no JSON: is it a registry"),
        (200, b"[]", "answers no object: is it a registry"),
        (200, b"{}", "answers no schema: is it a registry"),
        (200, b" " * (ANSWER_BYTES_MAX + 1), f"answers more than {ANSWER_BYTES_MAX} bytes"),
        (200, b" " * (ANSWER_BYTES_MAX + 2), f"answers more than {ANSWER_BYTES_MAX} bytes"),
        (403, b'{"title":"No right"}', r"403 \(No right\): give a user and password"),
        (401, b'{"message":"Unauthorized"}', r"401 \(Unauthorized\): give a user and password"),
        (301, b"", "answers 301: see the registry"),
        (500, b'["x"]', "answers 500: see the registry"),
    ],
)
def test_other_responses_are_failures(served, client, status, body, told):
    served.faults["/schemas/ids/1"] = status, body
    with pytest.raises(RegistryFailure, match=told):
        client.schema(short(1))


def test_largest_answer_is_read(served, client):
    body = b'{"schema": "\\"int\\""}'
    served.faults["/schemas/ids/1"] = 200, body + b" " * (ANSWER_BYTES_MAX - len(body))
    assert client.schema(short(1)).text == '"int"'


@pytest.mark.parametrize("number", [None, "1", 1.5, -1, 2**31])
def test_latest_version_without_id_is_a_failure(served, client, number):
    served.faults["/subjects/s/versions/latest"] = 200, json.dumps({"id": number}).encode()
    with pytest.raises(RegistryFailure, match="answers no id: is it a registry"):
        client.latest_with_id("s")


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1])
def test_latest_version_has_its_id(served, client, number):
    answer = {"id": number, "schema": '"int"'}
    served.faults["/subjects/s/versions/latest"] = 200, json.dumps(answer).encode()
    schema_id, schema = client.latest_with_id("s")
    assert (schema_id, schema.text) == (short(number), '"int"')


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("localhost:8081", "is no URL of a registry"),
        ("http://", "is no URL of a registry"),
        ("ftp://localhost:1", "is no URL of a registry"),
        ("https://", "is no URL of a registry"),
        ("http://localhost:port", "is no URL of a registry"),
        ("http://localhost:1", "no registry listens there"),
    ],
)
def test_wrong_urls_are_failures(url, told):
    with pytest.raises(RegistryFailure, match=told):
        SchemaRegistry(HttpServer(url)).schema(short(1))


def test_credentials_are_sent_and_never_shown(served):
    served.register("a", '"int"')
    at_host = served.url.replace("//", "//me:p%40ss@")
    for server in (HttpServer(at_host), HttpServer(served.url, user="me", password="p@ss")):
        assert SchemaRegistry(server).schema(short(1)).text == '"int"'
        assert "p@ss" not in repr(server).replace(at_host, "")
    SchemaRegistry(HttpServer(served.url, token="secret")).schema(short(1))
    basic = "Basic " + b64encode(b"me:p@ss").decode()
    assert served.authorizations == [basic, basic, "Bearer secret"]
    assert {accepted.split(",")[0] for accepted in served.accepted} == {
        "application/vnd.schemaregistry.v1+json"
    }
    served.authorizations.clear()
    for server in (
        HttpServer(served.url, user="me"),
        HttpServer(at_host, user="you"),
        HttpServer(at_host, password="other"),
        HttpServer(served.url),
        HttpServer(served.url, password="alone"),
    ):
        SchemaRegistry(server).schema(short(1))
    assert served.authorizations == [
        *("Basic " + b64encode(each).decode() for each in (b"me:", b"you:p@ss", b"me:other")),
        *(None, None),
    ]
    with pytest.raises(UnusableSchema) as failed:
        SchemaRegistry(HttpServer(at_host)).schema(short(9))
    assert "p%40ss" not in str(failed.value)


def test_tls_is_verified():
    certificates = Certificates()
    with naive_registry(server_context(certificates.server_settings())) as served:
        served.register("a", '"int"')
        trusting = client_context(certificates.client_settings())
        assert SchemaRegistry(HttpServer(served.url, tls=trusting)).schema(short(1)).text == '"int"'
        with pytest.raises(RegistryFailure, match="its certificate is refused"):
            SchemaRegistry(HttpServer(served.url)).schema(short(1))


@contextmanager
def answering(*pieces, stays_open=True):
    """Serves one connection, and ends it after these bytes unless it stays open."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve():
        peer, _ = listener.accept()
        with peer:
            if not stays_open:
                peer.recv(1 << 16)  # the request: unread, it would reset the connection
            for piece in pieces:
                peer.sendall(piece)
            if stays_open:
                done.wait()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    "begun", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"]
)
def test_silent_server_times_out(begun):
    with answering(begun) as url:
        with pytest.raises(RegistryFailure, match=r"has not answered within 0\.1 s"):
            SchemaRegistry(HttpServer(url, seconds=0.1)).schema(short(1))


@contextmanager
def dripping(begun, tls=None):
    """Serves one connection: byte after byte, without end."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve():
        peer, _ = listener.accept()
        with peer, suppress(OSError), wrapped(peer) as stream:
            stream.sendall(begun)
            while not done.wait(0.01):
                stream.sendall(b"x")

    def wrapped(peer):
        return peer if tls is None else tls.wrap_socket(peer, server_side=True)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        thread.join()
        listener.close()


@pytest.mark.parametrize(
    ("scheme", "begun"),
    [
        ("http", b"HTTP/1.1 200 OK\r\n\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"),
        ("http", b"HTTP/1.1 200 OK\r\nName: "),
        ("https", b"\x16\x03\x03\x40\x00"),  # a record of the handshake with 16 KiB
    ],
    ids=["body", "last body", "body of known length", "header", "handshake"],
)
def test_time_of_a_request_includes_its_last_byte(scheme, begun):
    with dripping(begun) as url:
        with pytest.raises(RegistryFailure, match=r"has not answered within 0\.1 s"):
            SchemaRegistry(HttpServer(url.replace("http", scheme), seconds=0.1)).schema(short(1))


def test_time_of_a_request_includes_encrypted_bytes():
    certificates = Certificates()
    context = server_context(certificates.server_settings())
    with dripping(b"HTTP/1.1 200 OK\r\n\r\n", context) as url:
        server = HttpServer(
            url.replace("http://127.0.0.1", "https://localhost"),
            tls=client_context(certificates.client_settings()),
            seconds=0.3,
        )
        with pytest.raises(RegistryFailure, match=r"has not answered within 0\.3 s"):
            SchemaRegistry(server).schema(short(1))


def test_time_of_request_includes_name_lookup(served, monkeypatch):
    def slowly(*arguments):
        for timer in timers():
            timer.join()
        return connect(*arguments)

    connect = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", slowly)
    with pytest.raises(RegistryFailure, match=r"has not answered within 0\.1 s"):
        SchemaRegistry(HttpServer(served.url, seconds=0.1)).schema(short(1))
    assert not served.asked


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_time_of_request_includes_connecting(scheme):
    with ExitStack() as opened:
        listener = opened.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):  # the queue of connections to accept is full
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RegistryFailure, match=r"has not answered within 0\.1 s"):
            SchemaRegistry(HttpServer(url, seconds=0.1)).schema(short(1))


def timers():
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_deadline_applies_to_one_request(served, client):
    served.register("a", '"int"')
    during = []
    answer = served.answer
    served.answer = lambda path: (during.extend(timers()), answer(path))[1]
    client.schema(short(1))
    assert [timer.daemon for timer in during] == [True]
    for timer in during:
        timer.join(10)
    assert not timers()


def test_other_protocols_are_failures():
    with answering(b"SSH-2.0-OpenSSH\r\n") as url:
        with pytest.raises(RegistryFailure, match="no answer of a registry"):
            SchemaRegistry(HttpServer(url)).schema(short(1))


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{"schema": "5"}',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nf\r\n{"schema": "5"}\r\n',
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000000\r\n\r\n" + b" " * ANSWER_BYTES_MAX,
    ],
)
def test_answers_that_end_early_are_failures(answer):
    with answering(answer, stays_open=False) as url:
        with pytest.raises(RegistryFailure, match="no answer of a registry"):
            SchemaRegistry(HttpServer(url)).schema(short(1))


def apicurio(served, version=3, **options):
    return SchemaRegistry(HttpServer(f"{served.url}/apis/registry/v{version}"), **options)


def test_ids_of_apicurio_are_global_or_content_ids(served):
    schema = json.dumps({"type": "record", "name": "A", "fields": []})
    for path in ("globalIds/1", "contentIds/1"):
        served.faults[f"/apis/registry/v3/ids/{path}?returnArtifactType=true"] = (
            200,
            schema.encode(),
        )
        served.faults[f"/apis/registry/v3/ids/{path}/references"] = 200, b"[]"
    for kind, number, options in (
        (IdKind.SHORT, "content", {}),
        (IdKind.LONG, "global", {}),
        (IdKind.CONTENT, "content", {}),
        (IdKind.SHORT, "global", {"id_kind": IdKind.GLOBAL}),
        (IdKind.LONG, "content", {"id_kind": IdKind.CONTENT}),
    ):
        served.asked.clear()
        assert apicurio(served, **options).schema(SchemaId(kind, 1)).text == schema
        assert served.asked[0] == f"/apis/registry/v3/ids/{number}Ids/1?returnArtifactType=true"
    with pytest.raises(UnusableSchema, match="an id of Confluent's registry"):
        apicurio(served).schema(SchemaId(IdKind.GUID, 1))


@pytest.mark.parametrize(
    ("subject", "path"),
    [
        ("top", "groups/default/artifacts/top"),
        ("g/top", "groups/g/artifacts/top"),
        ("g/h/top", "groups/g%2Fh/artifacts/top"),
        ("a b/t?p", "groups/a%20b/artifacts/t%3Fp"),
    ],
)
def test_artifact_of_apicurio_follows_its_group(served, subject, path):
    for end in ("", "/"):
        url = f"{served.url}/apis/registry/v2{end}"
        with pytest.raises(UnusableSchema):
            SchemaRegistry(HttpServer(url)).latest(subject)
    assert served.asked == [f"/apis/registry/v2/{path}"] * 2


@pytest.mark.parametrize("version", [2, 3])
def test_artifacts_of_apicurio_are_found_with_references(served, version):
    base, content = f"/apis/registry/v{version}", "" if version == 2 else "/content"
    versions = f"{base}/groups/g/artifacts/top/versions"
    top = f"{base}/groups/g/artifacts/top" if version == 2 else f"{versions}/branch=latest/content"
    inner = f"{base}/groups/default/artifacts/in%2Fner/versions/4"
    reference = {"groupId": None, "artifactId": "in/ner", "version": "4", "name": "n.Inner"}
    listed = json.dumps([reference]).encode()
    served.faults |= {
        top: (200, b'{"$schema": "x"}'),
        f"{versions}/{'latest' if version == 2 else 'branch=latest'}/references": (200, listed),
        f"{inner}{content}": (200, b'"inner"'),
        f"{inner}/references": (200, b"[]"),
    }
    found = apicurio(served, version).latest("g/top")
    assert (found.kind, found.references) == ("JSON", {"n.Inner": '"inner"'})

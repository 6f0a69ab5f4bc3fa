"""A schema registry for tests: Confluent's REST API exactly as in its reference, in a thread, over HTTP or TLS."""

from __future__ import annotations

import json
import ssl
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote


@dataclass
class NaiveRegistry:
    """Subjects and their versions in lists; `asked` has the path of each request, `authorizations` and `accepted` its
    headers.
    """

    url: str
    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    accepted: list[str | None] = field(default_factory=list)
    faults: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Answers by path, in place of the true ones."""

    def register(
        self,
        subject: str,
        schema: Any,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str]] = (),
    ) -> int:
        """Registers a version and returns the schema's id. A reference is a name and a subject, at its last version."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        found: dict[str, Any] = {"schema": text, "guid": str(uuid.uuid5(uuid.NAMESPACE_URL, text))}
        if kind != "AVRO":
            found["schemaType"] = kind
        if references:
            found["references"] = [
                {"name": name, "subject": of, "version": len(self.subjects[of])}
                for name, of in references
            ]
        self.schemas.append(found)
        versions = self.subjects.setdefault(subject, [])
        versions.append(
            {**found, "subject": subject, "version": len(versions) + 1, "id": len(self.schemas)}
        )
        return len(self.schemas)

    def answer(self, path: str) -> tuple[int, bytes]:
        if path in self.faults:
            return self.faults[path]
        match path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                known = dict(enumerate(self.schemas, 1)).get(int(number))
                return _found(known, 40403, "Schema not found")
            case ["schemas", "guids", guid]:
                known = {each["guid"]: each for each in self.schemas}.get(guid)
                return _found(known, 40403, "Schema not found")
            case ["subjects", subject, "versions", version]:
                versions = self.subjects.get(unquote(subject), [])
                at = len(versions) if version == "latest" else int(version)
                return _found(dict(enumerate(versions, 1)).get(at), 40401, "Subject not found.")
        return 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'


def _found(known: dict[str, Any] | None, code: int, message: str) -> tuple[int, bytes]:
    if known is None:
        return 404, json.dumps({"error_code": code, "message": message}).encode()
    return 200, json.dumps(known).encode()


@contextmanager
def naive_registry(tls: ssl.SSLContext | None = None) -> Iterator[NaiveRegistry]:
    """Serves an empty registry at a port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            registry.asked.append(self.path)
            registry.authorizations.append(self.headers.get("Authorization"))
            registry.accepted.append(self.headers.get("Accept"))
            status, body = registry.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words):
            """Prints nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    port = server.server_address[1]
    registry = NaiveRegistry(f"{'https' if tls else 'http'}://localhost:{port}")
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

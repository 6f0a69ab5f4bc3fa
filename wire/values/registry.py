"""A client of schema registries: Confluent's REST API, which Karapace, Redpanda and Apicurio serve, too, and
Apicurio's own.

It caches nothing: `trimaran.wire.values.decoder` caches the schemas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trimaran.wire.values.failures import RegistryFailure, UnusableSchema
from trimaran.wire.values.framing import IdKind, SchemaId
from trimaran.wire.values.http_get import HttpAnswer, HttpServer

REFERENCES_MAX = 200
"""The maximum number of schemas to which a schema refers, directly or indirectly."""

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as it was registered; `references` has the schemas to which it refers by name, each after the schemas
    that it depends on.
    """

    kind: str
    text: str
    references: dict[str, str] = field(default_factory=dict)


class SchemaRegistry:
    """A registry at a URL. It is Apicurio's own API if the path of the URL ends with `/apis/registry/v2` or `v3`."""

    def __init__(self, server: HttpServer, *, id_kind: IdKind | None = None) -> None:
        """Args: id_kind: the kind of Apicurio's ids in values, GLOBAL or CONTENT. By default ids of 4 bytes are
        contentIds, as written by serializers of 3.x, and ids of 8 bytes are globalIds, as written by those of 2.x.
        """
        self._server = server
        self._id_kind = id_kind
        found = re.search(r"/apis/registry/v([23])/?$", server.url)
        self._apicurio = int(found[1]) if found else None

    @property
    def has_type_references(self) -> bool:
        """Returns whether a Protobuf message follows the name of its type, as in Apicurio's serializers."""
        return self._apicurio is not None

    def schema(self, schema_id: SchemaId) -> RegisteredSchema:
        """Requests the schema of an id, with its references.

        Raises:
            UnusableSchema: the registry does not have it.
            RegistryFailure: the registry does not answer.
        """
        if self._apicurio:
            return self._of_apicurio(schema_id)
        if schema_id.kind is IdKind.GUID:
            return self._registered(f"/schemas/guids/{schema_id.path}")
        if schema_id.kind is not IdKind.SHORT:
            raise UnusableSchema(
                f"{schema_id} is an id of Apicurio: give the URL of its own API, which ends with /apis/registry/v3"
            )
        return self._registered(f"/schemas/ids/{schema_id.path}")

    def latest(self, subject: str) -> RegisteredSchema:
        """Requests the latest version of a subject; in Apicurio's own API, that of an artifact, named `group/artifact`
        or `artifact`.
        """
        if not self._apicurio:
            return self._registered(f"/subjects/{_quoted(subject)}/versions/latest")
        group, _, artifact = subject.rpartition("/")
        path = f"/groups/{_quoted(group or 'default')}/artifacts/{_quoted(artifact)}"
        if self._apicurio == 2:
            answer, references = self._content(path), f"{path}/versions/latest/references"
        else:
            answer = self._content(f"{path}/versions/branch=latest/content")
            references = f"{path}/versions/branch=latest/references"
        return self._assembled(answer, references)

    def latest_with_id(self, subject: str) -> tuple[SchemaId, RegisteredSchema]:
        """Requests the latest version of a subject, and the id with which values of that schema begin.

        Raises:
            UnusableSchema: the registry does not have it, or is Apicurio's own API.
            RegistryFailure: the registry does not answer.
        """
        if self._apicurio:
            raise UnusableSchema(
                "values are written with ids of Confluent's API only: give the URL of Apicurio's, which ends with "
                "/apis/ccompat/v7"
            )
        path = f"/subjects/{_quoted(subject)}/versions/latest"
        top = self._json(path)
        number = top.get("id")
        if not isinstance(number, int) or not 0 <= number < 1 << 31:
            raise RegistryFailure(f"{self._server.shown}{path} answers no id: is it a registry?")
        return SchemaId(IdKind.SHORT, number), self._of_answer(path, top)

    def _registered(self, path: str) -> RegisteredSchema:
        return self._of_answer(path, self._json(path))

    def _of_answer(self, path: str, top: dict[str, Any]) -> RegisteredSchema:
        kind, text = top.get("schemaType") or AVRO, top.get("schema")
        if not isinstance(text, str) or not isinstance(kind, str):
            raise RegistryFailure(
                f"{self._server.shown}{path} answers no schema: is it a registry?"
            )
        return RegisteredSchema(kind, text, self._collected(top.get("references"), self._version))

    def _version(self, reference: dict[str, Any]) -> tuple[str, Any]:
        subject, version = str(reference.get("subject")), str(reference.get("version"))
        found = self._json(f"/subjects/{_quoted(subject)}/versions/{_quoted(version)}")
        return str(found.get("schema")), found.get("references")

    def _of_apicurio(self, schema_id: SchemaId) -> RegisteredSchema:
        kind = schema_id.kind
        if kind in (IdKind.SHORT, IdKind.LONG):
            kind = self._id_kind or (IdKind.GLOBAL if kind is IdKind.LONG else IdKind.CONTENT)
        elif kind is IdKind.GUID:
            raise UnusableSchema(f"{schema_id} is an id of Confluent's registry: give its URL")
        path = f"/ids/{kind.value}s/{schema_id.path}"
        answer = self._content(f"{path}?returnArtifactType=true")
        return self._assembled(answer, f"{path}/references")

    def _assembled(self, answer: HttpAnswer, references: str) -> RegisteredSchema:
        text = _text(answer)
        found = self._collected(self._json_list(references), self._artifact)
        return RegisteredSchema(answer.artifact_type or _guessed(text), text, found)

    def _artifact(self, reference: dict[str, Any]) -> tuple[str, Any]:
        group = str(reference.get("groupId") or "default")
        artifact, version = str(reference.get("artifactId")), str(reference.get("version"))
        path = f"/groups/{_quoted(group)}/artifacts/{_quoted(artifact)}/versions/{_quoted(version)}"
        answer = self._content(path if self._apicurio == 2 else f"{path}/content")
        return _text(answer), self._json_list(f"{path}/references")

    def _collected(
        self, references: Any, request: Callable[[dict[str, Any]], tuple[str, Any]]
    ) -> dict[str, str]:
        """Requests references and their own references, depth first. Each name is requested once, so cycles end."""
        texts: dict[str, str] = {}
        begun: set[str] = set()
        open_lists = [_references(references)]
        waiting: list[tuple[str, str]] = []
        while open_lists:
            reference = next(open_lists[-1], None)
            if reference is None:
                open_lists.pop()
                if waiting:
                    name, text = waiting.pop()
                    texts[name] = text
                continue
            name = str(reference.get("name"))
            if name in begun:
                continue
            begun.add(name)
            if len(begun) > REFERENCES_MAX:
                raise UnusableSchema(f"the schema refers to more than {REFERENCES_MAX} others")
            text, inner = request(reference)
            waiting.append((name, text))
            open_lists.append(_references(inner))
        return texts

    def _json(self, path: str) -> dict[str, Any]:
        found = self._parsed(path)
        if not isinstance(found, dict):
            raise RegistryFailure(
                f"{self._server.shown}{path} answers no object: is it a registry?"
            )
        return found

    def _json_list(self, path: str) -> object:
        return self._parsed(path)

    def _parsed(self, path: str) -> object:
        answer = self._content(path)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise RegistryFailure(
                f"{self._server.shown}{path} answers no JSON: is it a registry?"
            ) from None

    def _content(self, path: str) -> HttpAnswer:
        answer = self._server.get(path)
        if answer.status == 200:
            return answer
        told = f"{self._server.shown}{path} answers {answer.status}{_message(answer.body)}"
        if answer.status == 404:
            raise UnusableSchema(f"{told}: was the value written with another registry?")
        if answer.status in (401, 403):
            raise RegistryFailure(
                f"{told}: give a user and password, or a token, with the right to read"
            )
        raise RegistryFailure(f"{told}: see the registry")


def _references(found: Any) -> Iterator[dict[str, Any]]:
    return iter(
        [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    )


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _text(answer: HttpAnswer) -> str:
    try:
        return answer.body.decode()
    except UnicodeDecodeError:
        raise UnusableSchema("the registry answers a schema that is not UTF-8") from None


def _guessed(text: str) -> str:
    """Returns the probable kind of a schema; Apicurio does not report the kind for a contentId."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return PROTOBUF
    return JSON if re.search(r'"(\$schema|properties)"\s*:', text) else AVRO


def _message(body: bytes) -> str:
    try:
        found = json.loads(body)
        told = found.get("message") or found.get("title")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return f" ({str(told)[:200]})" if told else ""

"""Messages and records as JSON, for operators and for Spark.

Fields have Kafka's names in snake_case; UUIDs are written as Kafka's text, bytes and records as base64, and
not-a-number floats as text. Secrets are hidden, because the output is copied into tickets and logs.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.codec.declarations import Field, Struct
from trimaran.wire.codec.plan import Shape, shape_of
from trimaran.wire.records.sensitive import is_sensitive

HIDDEN = "(hidden)"

# Keyed by class name, so that the classes need not be imported.
SECRET_FIELDS: Mapping[str, frozenset[str]] = {
    "UserScramCredentialRecord": frozenset({"salt", "stored_key", "server_key"}),
    "DelegationTokenRecord": frozenset({"token_id"}),
    "RemoveDelegationTokenRecord": frozenset({"token_id"}),
    "SaslAuthenticateRequest": frozenset({"auth_bytes"}),
    "SaslAuthenticateResponse": frozenset({"auth_bytes"}),
    "ScramCredentialUpsertion": frozenset({"salt", "salted_password"}),
    "CreateDelegationTokenResponse": frozenset({"hmac"}),
    "DescribedDelegationToken": frozenset({"hmac"}),
    "RenewDelegationTokenRequest": frozenset({"hmac"}),
    "ExpireDelegationTokenRequest": frozenset({"hmac"}),
}

ShowRecords = Callable[[bytes], Any]


def base64_text(data: bytes) -> str:
    """Returns bytes as base64, as all JSON here shows them."""
    return base64.b64encode(data).decode()


def as_json(
    message: Struct, version: int | None = None, records: ShowRecords = base64_text
) -> dict[str, Any]:
    """Returns a value for `json.dumps`.

    Args:
        version: omits fields that the version lacks; None shows every field. records: converts record batches to JSON.
    """
    hidden = _hidden_in(message)
    shown: dict[str, Any] = {}
    for field, shape in _fields_of(type(message)):
        if version is None or version in field.versions:
            value = getattr(message, field.name)
            secret = field.name in hidden and value is not None
            shown[field.name] = HIDDEN if secret else _plain(value, shape, version, records)
    return shown


def holds_secret(message: Struct) -> bool:
    """Whether a metadata record has a field that is hidden; such records have no nested structs with secrets."""
    return bool(_hidden_in(message))


@cache
def _fields_of(cls: type[Struct]) -> tuple[tuple[Field, Shape], ...]:
    return tuple((field, shape_of(field.annotation)[0]) for field in cls.__fields__)


def _hidden_in(message: Struct) -> frozenset[str]:
    """Hides the value of a secret config in any message."""
    hidden = SECRET_FIELDS.get(type(message).__name__, frozenset())
    names = type(message).__slots__
    if "name" in names and "value" in names:
        name = getattr(message, "name", None)
        kind = getattr(message, "resource_type", None)
        if isinstance(name, str) and is_sensitive(name, kind):
            return hidden | {"value"}
    return hidden


def _plain(value: Any, shape: Shape, version: int | None, records: ShowRecords) -> Any:
    if value is None:
        return None
    if shape.item is not None:
        return [_plain(item, shape.item, version, records) for item in value]
    if shape.wire is None:
        return as_json(value, version, records)
    match shape.wire.name:
        case "uuid":
            return uuid_to_text(value)
        case "bytes":
            return base64_text(bytes(value))
        case "records":
            return records(bytes(value))
        case "float64" if not math.isfinite(value):
            return str(value)
        case _:
            return value

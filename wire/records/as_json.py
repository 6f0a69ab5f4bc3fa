"""Records as JSON, for people and for Spark: fields by their names, UUIDs as Kafka's text, bytes as hex, secrets hidden."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wire.primitives import uuid_to_text
from wire.records.configs import ConfigRecord
from wire.records.security import DelegationTokenRecord, UserScramCredentialRecord
from wire.records.sensitive import is_sensitive
from wire.schema import Struct

HIDDEN = "(hidden)"
SECRET_FIELDS: Mapping[type[Struct], frozenset[str]] = {
    UserScramCredentialRecord: frozenset({"salt", "stored_key", "server_key"}),
    DelegationTokenRecord: frozenset({"token_id"}),
}


def as_json(message: Struct) -> dict[str, Any]:
    """What `json.dumps` takes."""
    hidden = SECRET_FIELDS.get(type(message), frozenset())
    if isinstance(message, ConfigRecord) and is_sensitive(message.name):
        hidden = frozenset({"value"})
    return {
        f.name: HIDDEN if f.name in hidden else _plain(getattr(message, f.name))
        for f in message.__fields__
    }


def _plain(value: Any) -> Any:
    match value:
        case bytes() if len(value) == 16:
            return uuid_to_text(value)
        case bytes() | memoryview():
            return bytes(value).hex()
        case list() | tuple():
            return [_plain(item) for item in value]
        case Struct():
            return as_json(value)
        case _:
            return value

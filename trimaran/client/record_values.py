"""Keys and values of records as JSON, and the interface of their codecs, which are in `record_codecs`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Headers = Iterable[tuple[str, bytes | None]]


@dataclass(frozen=True)
class JsonValue:
    """A value in its JSON form; `schema` names the schema that it was decoded by, such as `id 5`, and `message` the
    message of Protobuf.
    """

    value: Any
    schema: str = ""
    message: str = ""


class PartCodec(Protocol):
    """Decodes and encodes the keys or the values of records."""

    def decode(self, data: bytes, headers: Headers) -> JsonValue:
        """Raises UndecodedValue, and RegistryFailure if the registry does not answer."""
        ...

    def encode(self, value: JsonValue, headers: Headers) -> bytes:
        """Raises UnencodedValue or UnusableSchema, and RegistryFailure if the registry does not answer."""
        ...


class Codecs(NamedTuple):
    """The codecs of keys and of values; None leaves the bytes unchanged."""

    key: PartCodec | None = None
    value: PartCodec | None = None


# Leaves keys and values unchanged.
AS_BYTES = Codecs()

"""Keys and values of records as JSON, and what decodes and encodes them: see `record_codecs` for the codecs."""

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
    """The codecs of keys and of values; None for bytes as they are."""

    key: PartCodec | None = None
    value: PartCodec | None = None


# Keys and values as they are.
AS_BYTES = Codecs()

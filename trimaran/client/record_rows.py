"""Records as rows of JSON, and back: `consume -o json` and `produce --input json`.

Text is a string, null is null, and bytes that are not UTF-8 are base64 in a field of their own (`value_base64`). A
value that was decoded is any JSON, with its schema beside it (`value_schema`). A record that was not decoded survives
the round trip byte for byte.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from trimaran.client.record_values import Codecs, JsonValue, PartCodec
from trimaran.wire.values.failures import UndecodedValue

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record
    from trimaran.wire.identity import TopicPartition

PartContent = bytes | JsonValue | None
# The other fields of rows; a producer uses the last two.
_OTHERS = {"topic", "offset", "deliveries", "partition", "timestamp_ms"}
_PARTS = ("key", "value")


class DecodedRecord(NamedTuple):
    """The key and the value of a record: decoded, or the bytes as they are; an error if decoding failed."""

    key: PartContent
    value: PartContent
    key_error: str = ""
    value_error: str = ""


class RowRecord(NamedTuple):
    """A record as a row describes it; None for a timestamp or partition that the row does not name."""

    key: PartContent
    value: PartContent
    headers: Sequence[tuple[str, bytes | None]]
    timestamp_ms: int | None = None
    partition: int | None = None


def decoded(record: Record, codecs: Codecs, *, fails: bool) -> DecodedRecord:
    """Returns the key and the value, decoded if they have a codec.

    Raises:
        UndecodedValue: only with `fails`; otherwise the bytes stay as they are.
        RegistryFailure: the registry does not answer.
    """
    headers = [(header.key, header.value) for header in record.headers]
    contents: list[PartContent] = []
    errors = []
    for data, codec in ((record.key, codecs.key), (record.value, codecs.value)):
        content, error = _part(data, headers, codec, fails=fails)
        contents.append(content)
        errors.append(error)
    return DecodedRecord(contents[0], contents[1], errors[0], errors[1])


def _part(
    data: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    codec: PartCodec | None,
    *,
    fails: bool,
) -> tuple[PartContent, str]:
    if data is None or codec is None:
        return data, ""
    try:
        return codec.decode(bytes(data), headers), ""
    except UndecodedValue as error:
        if fails:
            raise
        return data, str(error)


def row_of(where: TopicPartition, record: Record, content: DecodedRecord) -> dict[str, Any]:
    """Returns the row of a record."""
    return {
        "topic": where.topic,
        "partition": where.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_fields("key", content.key, content.key_error),
        **_fields("value", content.value, content.value_error),
        "headers": [
            [header.key, None if header.value is None else _text_or_base64(header.value)]
            for header in record.headers
        ],
    }


def _fields(part: str, content: PartContent, error: str) -> dict[str, Any]:
    if content is None:
        return {part: None}
    if isinstance(content, JsonValue):
        found = {part: content.value, f"{part}_schema": content.schema}
        return found | {f"{part}_message": content.message} if content.message else found
    if error:
        coded = b64encode(content).decode()
        return {part: None, f"{part}_base64": coded, f"{part}_error": error}
    text = _text_or_base64(content)
    return {part: text} if isinstance(text, str) else {f"{part}_base64": text["base64"]}


def _text_or_base64(data: bytes) -> str | dict[str, str]:
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(data).decode()}


def parse_row(line: bytes) -> RowRecord:
    """Parses a row as `row_of` returns it.

    Raises:
        ValueError: the text is not such a row; the message says why.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from None
    if not isinstance(row, dict):
        raise ValueError("it is no object with key, value and headers")
    known = _OTHERS | {"headers"} | {f"{part}{end}" for part in _PARTS for end in _ENDS}
    if unknown := sorted(row.keys() - known):
        raise ValueError(
            f"it has a field {unknown[0]!r}; the fields are {', '.join(sorted(known))}"
        )
    if "value" not in row and "value_base64" not in row:
        raise ValueError("it has no value; a tombstone has the value null")
    return RowRecord(
        _content(row, "key"),
        _content(row, "value"),
        _headers(row.get("headers", [])),
        _number(row, "timestamp_ms", 63),
        _number(row, "partition", 31),
    )


_ENDS = ("", "_base64", "_schema", "_message", "_error")


def _content(row: dict[str, Any], part: str) -> PartContent:
    if (coded := row.get(f"{part}_base64")) is not None:
        return _base64(coded, f"{part}_base64")
    value = row.get(part)
    if value is None:
        return None
    schema, message = row.get(f"{part}_schema", ""), row.get(f"{part}_message", "")
    if not isinstance(schema, str) or not isinstance(message, str):
        raise ValueError(f"{part}_schema and {part}_message are strings, such as 'id 5'")
    return JsonValue(value, schema, message)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{text[:80]!r} is no string of Unicode") from None


def _base64(coded: object, name: str) -> bytes:
    if not isinstance(coded, str):
        raise ValueError(f"{name} is no string")
    try:
        return b64decode(coded, validate=True)
    except (Base64Error, ValueError):
        raise ValueError(f"{name} is no base64") from None


def _headers(found: Any) -> list[tuple[str, bytes | None]]:
    headers: list[tuple[str, bytes | None]] = []
    for each in found if isinstance(found, list) else [found]:
        match each:
            case [str(name), None]:
                headers.append((name, None))
            case [str(name), str(text)]:
                headers.append((name, _utf8(text)))
            case [str(name), {"base64": coded}]:
                headers.append((name, _base64(coded, f"header {name}")))
            case _:
                raise ValueError('headers are pairs such as [["trace", "7"]]')
        _utf8(name)
    return headers


def _number(row: dict[str, Any], name: str, bits: int) -> int | None:
    value = row.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not -1 <= value < 1 << bits:
        raise ValueError(f"{name} is {value!r}, and not a number from 0 on")
    return value


def encoded(
    content: PartContent,
    codec: PartCodec | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes | None:
    """Returns the bytes of a key or a value; bytes stay as they are.

    Raises:
        ValueError: content that was decoded, or that is JSON and no string, has no codec.
        UnencodedValue, UnusableSchema: it cannot be encoded.
        RegistryFailure: the registry does not answer.
    """
    if not isinstance(content, JsonValue):
        return content
    if codec is not None:
        return codec.encode(content, headers)
    if content.schema:
        raise ValueError(
            f"it was decoded ({content.schema}), and no schema is given to encode it again"
        )
    if not isinstance(content.value, str):
        raise ValueError(f"{str(content.value)[:80]!r} is no string, and no schema is given")
    return _utf8(content.value)


def of_text(text: bytes | None, codec: PartCodec | None) -> PartContent:
    """Returns the content that a text describes: itself, or with a codec the JSON in it.

    Raises:
        ValueError: the text is not JSON.
    """
    if text is None or codec is None:
        return text
    try:
        return JsonValue(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{text[:80]!r} is no JSON to be encoded by the schema ({error})"
        ) from None

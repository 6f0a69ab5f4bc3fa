"""Keys, values and headers of records as a page shows them: decoded, as text, as JSON, or in hex.

Records are written by anyone who may produce. A page shows a bounded part of them; a download has all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trimaran.client.record_values import Codecs, PartCodec
from trimaran.inspect.log_rows import decode_record
from trimaran.node.text.escaping import bounded
from trimaran.wire.records.registry import COORDINATOR_RECORDS
from trimaran.wire.values.failures import NoSchemaId, RegistryFailure, UndecodedValue

if TYPE_CHECKING:
    from trimaran.log.batches.records import Record

DECODED = "decoded"
FORMATS = ("text", "json", "hex")
# The longest key, value or header in a table; longer ones are shortened, with their full size.
SHOWN_BYTES_MAX = 4096
# The longest value that is parsed to be shown in a table: a page has up to 200.
PARSED_BYTES_MAX = 64 << 10
# The same on the page of one record.
WHOLE_BYTES_MAX = 1 << 20
_HEX_LINE = 16


class ShownPart(NamedTuple):
    """A key or value as text, None for null; `note` says why it is not shown in the wanted form, or which schema
    decoded it.
    """

    text: str | None
    note: str = ""


@dataclass
class RecordView:
    """Shows the records of a topic in one form. A registry that did not answer is not asked again for this page."""

    topic: str
    form: str
    codecs: Codecs = field(default_factory=Codecs)
    bytes_max: int = SHOWN_BYTES_MAX
    parsed_bytes_max: int = PARSED_BYTES_MAX
    in_lines: bool = False
    _failure: str = ""

    def parts(self, record: Record) -> tuple[ShownPart, ShownPart]:
        """Returns the key and the value."""
        if self.form == DECODED and self.topic in COORDINATOR_RECORDS:
            return self._of_coordinator(record)
        headers = [(header.key, header.value) for header in record.headers]
        return (
            self._part(record.key, self.codecs.key, headers),
            self._part(record.value, self.codecs.value, headers),
        )

    def headers(self, record: Record) -> list[tuple[str, str | None]]:
        """Returns names and values as text."""
        return [
            (header.key, shown(header.value, "text", self.bytes_max)) for header in record.headers
        ]

    def _part(
        self,
        data: bytes | None,
        codec: PartCodec | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> ShownPart:
        if data is None or self.form != DECODED or codec is None:
            form = "json" if self.form == DECODED else self.form
            text = shown(data, form, self.bytes_max, self.parsed_bytes_max, in_lines=self.in_lines)
            return ShownPart(text)
        note = self._failure
        if not note and len(data) > self.parsed_bytes_max:
            note = f"not decoded here: it has {len(data)} bytes"
        if not note:
            try:
                found = codec.decode(bytes(data), headers)
            except NoSchemaId:
                return ShownPart(shown(data, "json", self.bytes_max, self.parsed_bytes_max))
            except UndecodedValue as error:
                note = f"not decoded: {error}"
            except RegistryFailure as error:
                note, self._failure = f"not decoded: {error}", "not decoded"
            else:
                decoded = json.dumps(found.value, indent=2, ensure_ascii=False)
                about = " ".join(filter(None, (found.schema, found.message)))
                return ShownPart(bounded(decoded, 2 * self.bytes_max), about)
        return ShownPart(shown(data, "text", self.bytes_max), note)

    def _of_coordinator(self, record: Record) -> tuple[ShownPart, ShownPart]:
        """Shows a record of an internal topic: a group's offsets and members, transactions, share groups."""
        found = decode_record(self.topic, record) or {}
        if "error" in found:
            note = f"not decoded: {found['error']}"
            return (
                ShownPart(shown(record.key, "text", self.bytes_max), note),
                ShownPart(shown(record.value, "text", self.bytes_max)),
            )
        fields = " ".join(f"{name}={value}" for name, value in found["key"].items())
        value = found["value"]
        text = None if value is None else json.dumps(value, indent=2, ensure_ascii=False)
        return (
            ShownPart(bounded(fields, self.bytes_max), found["type"]),
            ShownPart(None if text is None else bounded(text, 2 * self.bytes_max)),
        )


def shown(
    data: bytes | memoryview | None,
    form: str,
    bytes_max: int = SHOWN_BYTES_MAX,
    parsed_bytes_max: int = PARSED_BYTES_MAX,
    *,
    in_lines: bool = False,
) -> str | None:
    """Returns bytes in the wanted form: bytes that are not JSON become text, and those that are not UTF-8 are
    escaped. `in_lines` is about hex, see `hex_lines`.
    """
    if data is None:
        return None
    some = bytes(data[:bytes_max])
    if form == "hex":
        text = hex_lines(some) if in_lines else some.hex(" ")
        return _bounded_bytes(text, len(data) - bytes_max)
    if form == "json" and len(data) <= parsed_bytes_max:
        try:
            text = json.dumps(json.loads(bytes(data)), indent=2, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass
        else:
            return bounded(text, 2 * bytes_max)
    return _bounded_bytes(some.decode("utf-8", "backslashreplace"), len(data) - bytes_max)


def hex_lines(data: bytes) -> str:
    """Returns lines of 16 bytes, each with its position and its printable characters."""
    lines = []
    for place in range(0, len(data), _HEX_LINE):
        part = data[place : place + _HEX_LINE]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{place:06x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)


def _bounded_bytes(text: str, more: int) -> str:
    return text if more <= 0 else f"{text}… ({more} more bytes)"

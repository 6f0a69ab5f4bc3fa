"""Captured frames as lines of JSON: parsing, decoding and re-encoding.

A line is an object with `api_key`, `api_version`, `direction` ("request" or "response") and `frame`: header and body in
base64, without the four bytes of length. Other members (place, time and source of the capture) are ignored.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from typing import Any, Literal

from trimaran.wire.errors import RemoteProtocolError
from trimaran.wire.messages.header import (
    decode_request_header,
    decode_response_header,
    encode_request,
    encode_response,
)
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey
from trimaran.wire.schema import Message

Direction = Literal["request", "response"]
_DIRECTIONS: tuple[Direction, ...] = ("request", "response")


@dataclass(frozen=True, slots=True)
class CapturedFrame:
    api_key: int
    api_version: int
    direction: Direction
    frame: bytes

    @property
    def api_name(self) -> str:
        return ApiKey(self.api_key).spelling


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded frame. `client_id` of a response is None."""

    correlation_id: int
    client_id: str | None
    message: Message


def parse_line(line: str) -> CapturedFrame:
    """Parses a line. Raises RemoteProtocolError: the line is invalid; the error names the missing or invalid part."""
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise RemoteProtocolError(f"not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise RemoteProtocolError("not a JSON object")
    key, version = _number(fields, "api_key"), _number(fields, "api_version")
    direction = fields.get("direction")
    if direction not in _DIRECTIONS:
        raise RemoteProtocolError(f"direction is {direction!r}, neither request nor response")
    text = fields.get("frame")
    if not isinstance(text, str):
        raise RemoteProtocolError(f"frame is {text!r}, not base64")
    try:
        frame = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise RemoteProtocolError(f"frame is not base64: {error}") from None
    return CapturedFrame(key, version, direction, frame)


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise RemoteProtocolError(f"{name} is {value!r}, not a number")
    return value


def decode(captured: CapturedFrame) -> Decoded:
    """Returns header and message.

    Raises:
        RemoteProtocolError: the API or version does not exist, the header is that of another API, or the bytes are
            malformed.
    """
    key, version = captured.api_key, captured.api_version
    table = REQUESTS if captured.direction == "request" else RESPONSES
    cls = table.get(key)
    if cls is None:
        raise RemoteProtocolError(f"no API has the key {key}")
    if version not in cls.VERSIONS:
        low, high = cls.VERSIONS
        raise RemoteProtocolError(f"{cls.__name__} has versions {low} to {high}, not {version}")
    if captured.direction == "response":
        correlation_id, start = decode_response_header(captured.frame, key, version)
        return Decoded(
            correlation_id, None, cls.decode(memoryview(captured.frame)[start:], version)
        )
    header, start = decode_request_header(captured.frame)
    if (header.api_key, header.api_version) != (key, version):
        raise RemoteProtocolError(
            f"the frame's header says api key {header.api_key}, version {header.api_version}"
        )
    message = cls.decode(memoryview(captured.frame)[start:], version)
    return Decoded(header.correlation_id, header.client_id, message)


def encode_again(captured: CapturedFrame, decoded: Decoded) -> bytes:
    """Returns the frame that we would have sent; undeclared tagged fields are lost."""
    version, correlation_id = captured.api_version, decoded.correlation_id
    if captured.direction == "request":
        out = encode_request(decoded.message, version, correlation_id, decoded.client_id)
    else:
        out = encode_response(decoded.message, version, correlation_id)
    return bytes(out)


def first_difference(one: bytes, other: bytes) -> int | None:
    """Returns the position of the first different byte, at most the end of the shorter one; None if they are equal."""
    if one == other:
        return None
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))

"""Headers of requests and responses, and whole messages with them (without the size prefix).

    request header v0: int16 api key, int16 version, int32 correlation id; only in ControlledShutdown v0
    request header v1: int16 api key, int16 version, int32 correlation id, nullable string client id
    request header v2: the same and tags; with flexible versions of a request
    response header v0: int32 correlation id
    response header v1: the same and tags; with flexible versions, except in ApiVersions

The client id stays a non-compact string in v2. Source: KIP-482, KIP-511, Kafka's `ApiKeys`.
"""

import struct
from typing import NamedTuple

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.codec.reading import skip_tags
from trimaran.wire.errors import LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey
from trimaran.wire.schema import DECODE_BUDGET, DecodeBudget, Message

_START = struct.Struct(">hhih")
_HEADER_V0 = struct.Struct(">hhi")
_HAS_HEADER_V0 = struct.pack(">hh", ApiKey.CONTROLLED_SHUTDOWN, 0)
_CORRELATION_ID = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """The header of a request. A missing client id is the empty one, as in Kafka."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


def decode_request_header(
    view: bytes | memoryview, budget: DecodeBudget = DECODE_BUDGET
) -> tuple[RequestHeader, int]:
    """Returns the header of a request frame, and the start of its body.

    An unknown api key or version is not an error here: the caller decides how to answer. Tags are skipped only if the
    request is known to be flexible, so the body position is meaningful only for declared keys and versions.

    Raises:
        RemoteProtocolError: the frame is too short for its declared sizes, has invalid UTF-8, or has more tags than
            `budget`.
    """
    try:
        key, version, correlation_id, size = _START.unpack_from(view, 0)
    except struct.error as error:
        if len(view) < _HEADER_V0.size or bytes(view[: len(_HAS_HEADER_V0)]) != _HAS_HEADER_V0:
            raise RemoteProtocolError("a request is too short for its header") from error
        (key, version, correlation_id), size = _HEADER_V0.unpack_from(view, 0), -1
    if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return RequestHeader(key, version, correlation_id, ""), _HEADER_V0.size
    pos = _START.size
    client_id = ""
    if size >= 0:
        if size > len(view) - pos:
            raise RemoteProtocolError(f"the client id has {size} bytes, more than there are")
        try:
            client_id = str(view[pos : pos + size], "utf-8")
        except UnicodeDecodeError as error:
            raise RemoteProtocolError("the client id is not UTF-8") from error
        pos += size
    elif size != -1:
        raise RemoteProtocolError(f"the client id has size {size}")
    has_tags = _known_tags.get((key, version))
    if has_tags is None:
        has_tags = _has_tags(key, version)
    if has_tags:
        if pos < len(view) and not view[pos]:
            pos += 1  # no tags, as in the requests of nearly all clients
        else:
            pos, _ = skip_tags("a request header", (), view, pos, len(view), budget.tags_max)
    # Bypasses the constructor function of a NamedTuple, because each request creates one.
    return tuple.__new__(RequestHeader, (key, version, correlation_id, client_id)), pos


# Results of `_has_tags` for declared keys and versions; a few hundred at most.
_known_tags: dict[tuple[int, int], bool] = {}


def _has_tags(key: int, version: int) -> bool:
    """Whether a request header has tags; False if unknown."""
    request = REQUESTS.get(key)
    if request is None or version not in request.VERSIONS:
        return False
    known = _known_tags[key, version] = version in request.FLEXIBLE
    return known


def encode_request(
    request: Message, version: int, correlation_id: int, client_id: str | None
) -> Outgoing:
    """Encodes header and body of a request; ControlledShutdown v0 has no field for the client id.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    out = Outgoing()
    try:
        text = (client_id or "").encode()
        size = -1 if client_id is None else len(text)
        start = _START.pack(request.KEY, version, correlation_id, size)
    except (struct.error, UnicodeEncodeError) as error:
        raise LocalProtocolError(f"a request header cannot be written: {error}") from error
    out += start[: _HEADER_V0.size] if start.startswith(_HAS_HEADER_V0) else start + text
    if version in request.FLEXIBLE:
        out.append(0)
    request.encode_into(out, version)
    return out


def encode_response(response: Message, version: int, correlation_id: int) -> Outgoing:
    """Encodes header and body of a response.

    Raises:
        LocalProtocolError: as `Message.encode` does.
    """
    out = Outgoing()
    out += _CORRELATION_ID.pack(correlation_id)
    flexible = response.FLEXIBLE
    if flexible.low <= version <= flexible.high and response.KEY != ApiKey.API_VERSIONS:
        out.append(0)
    response.encode_into(out, version)
    return out


def decode_response_header(view: bytes | memoryview, key: int, version: int) -> tuple[int, int]:
    """Returns the correlation id of a response to a request of `key` and `version`, and the start of the body.

    Raises:
        RemoteProtocolError: the frame is too short, or its tags are malformed.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(view, 0)
    except struct.error as error:
        raise RemoteProtocolError("a response is too short for its header") from error
    pos = _CORRELATION_ID.size
    flexible = RESPONSES[key].FLEXIBLE
    if flexible.low <= version <= flexible.high and key != ApiKey.API_VERSIONS:
        if pos < len(view) and not view[pos]:
            return correlation_id, pos + 1  # no tags, as in nearly all responses
        tags_max = DECODE_BUDGET.tags_max
        pos, _ = skip_tags("a response header", (), view, pos, len(view), tags_max)
    return correlation_id, pos

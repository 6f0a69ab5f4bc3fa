"""Reads the parts of frames that are needed even without rules, and makes frames of messages."""

from __future__ import annotations

from trimaran.faults.fates import RequestFate
from trimaran.wire.buffers.primitives import read_uvarint
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.header import RequestHeader, encode_response
from trimaran.wire.messages.registry import REQUESTS, ApiKey
from trimaran.wire.schema import Message

Frame = bytes | memoryview
# Produce v3+ has a transactional id before acks, which is compact from version 9 on.
_WITH_TRANSACTIONAL_ID = 3
_COMPACT = 9
# Versions of up to this number above ours, and up to this number of an unknown API, are taken for those of a later
# Kafka.
_LATER_VERSIONS = 20


def is_request(header: RequestHeader) -> bool:
    """Whether a header is that of a request, possibly of a later Kafka, rather than the first bytes of a login."""
    request = REQUESTS.get(header.api_key)
    return (
        request is not None and 0 <= header.api_version <= request.VERSIONS.high + _LATER_VERSIONS
    ) or _is_later_api(header)


def _is_later_api(header: RequestHeader) -> bool:
    return max(ApiKey) < header.api_key <= max(ApiKey) + _LATER_VERSIONS and (
        0 <= header.api_version <= _LATER_VERSIONS
    )


def expects_response(header: RequestHeader, body: Frame) -> bool:
    """Whether the broker answers a request: all except Produce with acks=0."""
    if header.api_key != ApiKey.PRODUCE:
        return True
    pos = 0
    try:
        if header.api_version >= _COMPACT:
            size, pos = read_uvarint(body, 0)
            pos += max(size - 1, 0)
        elif header.api_version >= _WITH_TRANSACTIONAL_ID:
            pos = 2 + max(int.from_bytes(body[:2], "big", signed=True), 0)
    except (ValueError, IndexError):
        return True
    return int.from_bytes(body[pos : pos + 2], "big", signed=True) != 0


def software_of(request: Message) -> str:
    """Returns name and version of the client in an ApiVersions request; the empty text before version 3."""
    parts = (getattr(request, f"client_software_{part}", "") for part in ("name", "version"))
    return " ".join(filter(None, parts))


def request_frame(head: Frame, request: Message, version: int, fate: RequestFate) -> bytes:
    """Returns the frame of a changed request, with its unchanged header."""
    if request.KEY == ApiKey.FETCH and fate.taken:
        # Kafka answers at once if a partition has an error.
        request = request.replace(max_wait_ms=0, min_bytes=0)
    return bytes(head) + request.encode(version)


def response_frame(correlation_id: int, response: Message, version: int) -> bytes:
    """Returns the frame of a response. Raises LocalProtocolError: the version cannot express it.

    As in Kafka, ApiVersions refuses a version in version 0, which every client can read (KIP-511).
    """
    if response.KEY == ApiKey.API_VERSIONS and _refuses_version(response):
        version = 0
    return bytes(encode_response(response, version, correlation_id))


def _refuses_version(response: Message) -> bool:
    return bool(getattr(response, "error_code", 0) == ErrorCode.UNSUPPORTED_VERSION)

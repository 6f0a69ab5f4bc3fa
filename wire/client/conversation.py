"""One connection of a client without its socket: the bytes to send, and the request of each response.

A node responds to the requests of a connection in order, so a response belongs to the oldest unanswered request. Its
correlation id must match; otherwise the rest of the connection cannot be trusted. Timeouts, waits and sockets belong to
the shell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trimaran.wire.buffers.outgoing import Outgoing
from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.client.versions import Negotiated
from trimaran.wire.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from trimaran.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.registry import RESPONSES, ApiKey
from trimaran.wire.schema import Message

T = TypeVar("T")

# The largest frame of a response; a Fetch response has at most about fetch.max.bytes plus one batch.
RESPONSE_BYTES_MAX = 256 << 20

# Responses with record bytes, which are views of the frame unless copied.
_WITH_RECORDS = frozenset({ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT})

# A node before 4.4 refuses version 5, which costs an exchange, and we do not need its fields.
HELLO_VERSION = 4

SOFTWARE_NAME = "trimaran"
SOFTWARE_VERSION = "0.1.0"


@dataclass(slots=True, frozen=True)
class _Sent(Generic[T]):
    key: int
    version: int
    correlation_id: int
    token: T


class Conversation(Generic[T]):
    """The state of a connection. `T` is the token by which the shell finds its waiter.

    With `copy_records` responses own their record bytes; otherwise these are views that stay valid and pin the receive
    buffer while referenced (see `trimaran.wire.buffers.framing`).
    """

    def __init__(self, client_id: str | None, *, copy_records: bool = True) -> None:
        self.client_id = client_id
        self.negotiated: Negotiated | None = None
        self._copy_records = copy_records
        self._correlation_id = 0
        self._unanswered: deque[_Sent[T]] = deque()

    @property
    def unanswered_count(self) -> int:
        return len(self._unanswered)

    def unanswered(self) -> Sequence[T]:
        """Returns the tokens of the requests that wait for a response, oldest first."""
        return [sent.token for sent in self._unanswered]

    def hello(self, token: T, version: int = HELLO_VERSION) -> Outgoing:
        """Returns the ApiVersions request that opens a connection."""
        request = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
        )
        return self._send(request, version, token)

    def negotiate(self, response: ApiVersionsResponse) -> int | None:
        """Takes the response to `hello`; returns the version in which to repeat it, or None when negotiation is
        complete.

        Raises:
            VersionMismatch: the node refuses, or serves no version of ApiVersions that we support.
        """
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = next((k for k in response.api_keys if k.api_key == ApiKey.API_VERSIONS), None)
            high = offered.max_version if offered else 0
            if not 0 <= high < HELLO_VERSION:
                raise VersionMismatch(f"the node refuses ApiVersions but offers v{high}")
            return high
        if response.error_code:
            code = ErrorCode.of(response.error_code)
            raise VersionMismatch(f"the node answers ApiVersions with {code.name}")
        self.negotiated = Negotiated.from_response(response)
        return None

    def request(self, request: Message, version: int | None, token: T | None) -> Outgoing:
        """Returns the frame (without its size) of a request; if `version` is None, the highest common one is used.

        `token` None means that no response follows (Produce with acks=0).

        Raises:
            VersionMismatch: the node does not serve the request, or not in that version.
            LocalProtocolError: the version cannot express the request.
        """
        return self._send(request, self.version_of(request, version), token)

    def version_of(self, request: Message, version: int | None) -> int:
        """Returns the version in which `request` would be sent. Raises VersionMismatch like `request`."""
        assert self.negotiated is not None, "hello first"
        if version is None:
            return self.negotiated.best(type(request))
        if version not in self.negotiated.versions.get(request.KEY, ()):
            raise VersionMismatch(f"the node does not serve {type(request).__name__} v{version}")
        return version

    def _send(self, request: Message, version: int, token: T | None) -> Outgoing:
        correlation_id = self._correlation_id
        frame = encode_request(request, version, correlation_id, self.client_id)
        if frame.splices:
            raise LocalProtocolError("requests are bytes; pieces of files are for answers")
        self._correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        if token is not None:
            self._unanswered.append(_Sent(request.KEY, version, correlation_id, token))
        return frame

    def receive(self, frame: memoryview) -> tuple[T, Any]:
        """Returns the token of the request that `frame` answers, and the response.

        Raises:
            RemoteProtocolError: the connection must be closed, because no later response can be trusted.
        """
        if not self._unanswered:
            raise RemoteProtocolError("an answer to no request")
        sent = self._unanswered[0]
        correlation_id, body = decode_response_header(frame, sent.key, sent.version)
        if correlation_id != sent.correlation_id:
            raise RemoteProtocolError(
                f"an answer to request {correlation_id} where {sent.correlation_id} is the next"
            )
        response = self._decode(sent, frame[body:])
        # Removed only now: a request with a malformed response is still unanswered, and its waiter must get the error.
        self._unanswered.popleft()
        return sent.token, response

    def _decode(self, sent: _Sent[T], body: memoryview) -> Message:
        if sent.key == ApiKey.API_VERSIONS:
            return _decode_api_versions(body, sent.version)
        owned = self._copy_records and sent.key in _WITH_RECORDS
        return RESPONSES[sent.key].decode(bytes(body) if owned else body, sent.version)


def _decode_api_versions(body: memoryview, version: int) -> ApiVersionsResponse:
    """Decodes the response; a node that does not know `version` responds in version 0 (KIP-511)."""
    if int.from_bytes(body[:2], "big") == ErrorCode.UNSUPPORTED_VERSION:
        version = 0
    return ApiVersionsResponse.decode(body, version)

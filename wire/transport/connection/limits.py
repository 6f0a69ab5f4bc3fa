"""Bounds of a connection, and the counters of a server.

See `wire/transport/server/connection_quotas.py` for the number of connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimaran.wire.transport.connection.failed_logins import FailedLogins
from trimaran.wire.transport.memory.pools import ANSWER_BYTES_MAX, REQUEST_BYTES_MAX

# Before login: with its other costs, TLS included, a connection stays below 64 KiB until the peer has authenticated
# (`bench.idle_connections`). No honest token of a mechanism that is served here comes near; Kerberos tickets would.
FRAME_BYTES_BEFORE_LOGIN_MAX = 28 << 10


@dataclass(slots=True, frozen=True)
class ConnectionLimits:
    """Every bound with its reason; the defaults are those of Apache Kafka where it has the bound.

    Args:
        frame_bytes_max: `socket.request.max.bytes`.
        idle_seconds: `connections.max.idle.ms`. A connection on which neither a request arrived nor an answer moved for
            this long is closed: also one that sends a byte now and then, or stops reading. Time that an answer is
            deferred on our side does not count.
        descriptors_end: a connection whose descriptor has this number, or a higher one, is closed as soon as it is
            accepted: those that are left are for files. Descriptors are given out from the lowest free one on.
        handshake_seconds: for TLS and authentication together; a connection without a proven owner may not linger.
        in_flight_max: requests of one connection that are begun and not answered. librdkafka's idempotent producers
            keep 5; each holds an answer and perhaps a wait, no more.
        in_flight_bytes_max: what requests of one connection that are begun and not answered may hold; one alone may
            hold more. Room for the 5 produce requests of a megabyte that an idempotent producer keeps under way.
        unsent_bytes_max: while this many bytes of answers wait to be sent, no further request is begun.
        request_bytes_max: `queued.max.request.bytes`, of all connections of one kind of listener (`Memory`).
        answer_bytes_max: the same for answers that wait to be sent.
        stalled_seconds: while others wait for memory, a connection that holds some and neither receives nor sends
            64 KiB, nor begins a request, within this time is closed: the largest first, until there is room.
        half_closed_seconds: how long answers are still given to a peer that sends no more, or no sense.
    """

    frame_bytes_max: int = 100 << 20
    idle_seconds: float = 600.0
    descriptors_end: int = 1 << 31
    handshake_seconds: float = 10.0
    in_flight_max: int = 64
    in_flight_bytes_max: int = 8 << 20
    unsent_bytes_max: int = 1 << 20
    request_bytes_max: int = REQUEST_BYTES_MAX
    answer_bytes_max: int = ANSWER_BYTES_MAX
    stalled_seconds: float = 1.0
    half_closed_seconds: float = 1.0

    def frame_bytes_before_login(self, token_bytes_max: int) -> int:
        """Returns the bound of frames of a peer that has not authenticated, by the bound of its tokens."""
        return min(token_bytes_max, FRAME_BYTES_BEFORE_LOGIN_MAX, self.frame_bytes_max)


@dataclass(slots=True)
class Counters:
    """Counts of a server since it began."""

    accepted: int = 0
    closed: int = 0
    refused: int = 0
    delayed: int = 0
    excess_closed: int = 0
    idle_closed: int = 0
    stalled_closed: int = 0
    failed_handshakes: int = 0
    failed_authentications: int = 0
    expired_sessions: int = 0
    failed_logins: FailedLogins = field(default_factory=FailedLogins)
    bad_frames: int = 0
    bad_requests: int = 0
    requests: int = 0

"""Bounds of a connection, and the counters of a server.

See `wire/transport/server/connection_quotas.py` for the number of connections.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trimaran.wire.transport.connection.failed_logins import FailedLogins
from trimaran.wire.transport.memory.bounds import REQUEST_BYTES_MAX, RESPONSES_BYTES_MAX

# The bound before login keeps a connection below 64 KiB in all, TLS included, until the peer has authenticated
# (`bench.idle_connections`). Valid tokens are far smaller, except those of GSSAPI: Active Directory lists the groups
# of a user in a ticket, up to 65,535 bytes by the largest `MaxTokenSize`.
FRAME_BYTES_BEFORE_LOGIN_MAX = 28 << 10
FRAME_BYTES_WITH_TICKET_MAX = 68 << 10


@dataclass(slots=True, frozen=True)
class ConnectionLimits:
    """Bounds of a connection, each with its reason; the defaults are Apache Kafka's if Kafka has the bound.

    Args:
        frame_bytes_max: `socket.request.max.bytes`.
        idle_seconds: `connections.max.idle.ms`. A connection on which neither a request arrived nor an answer moved for
            this long is closed, even if it occasionally sends a byte, or stops reading. The time for which this node
            defers an answer does not count.
        descriptors_end: a connection whose descriptor has this number, or a higher one, is closed as soon as it is
            accepted: the remaining descriptors are reserved for files. The kernel assigns the lowest free descriptor.
        handshake_seconds: for TLS and authentication together; an unauthenticated connection may not linger.
        in_flight_max: the maximum number of unanswered requests of one connection. librdkafka's idempotent producers
        keep 5 in
            flight; each holds only a response and possibly a wait.
        in_flight_bytes_max: the memory of the unanswered requests of one connection; a single request may exceed it. It
            has room for the 5 produce requests of a megabyte that an idempotent producer keeps in flight.
        unsent_bytes_max: no further request begins while this many bytes of answers wait to be sent.
        request_bytes_max: `queued.max.request.bytes`, for all connections of one kind of listener (`Memory`).
        responses_bytes_max: the corresponding bound for answers that wait to be sent.
        stalled_seconds: while other connections wait for memory, a connection that holds memory is closed if it neither
            receives nor sends 64 KiB nor begins a request within this time; the connection with the most memory is
            closed first, until there is room.
        half_closed_seconds: the time for which answers are still sent to a peer that has stopped sending, or has sent
        an invalid
            frame.
    """

    frame_bytes_max: int = 100 << 20
    idle_seconds: float = 600.0
    descriptors_end: int = 1 << 31
    handshake_seconds: float = 10.0
    in_flight_max: int = 64
    in_flight_bytes_max: int = 8 << 20
    unsent_bytes_max: int = 1 << 20
    request_bytes_max: int = REQUEST_BYTES_MAX
    responses_bytes_max: int = RESPONSES_BYTES_MAX
    stalled_seconds: float = 1.0
    half_closed_seconds: float = 1.0

    def frame_bytes_before_login(self, token_bytes_max: int, *, has_tickets: bool = False) -> int:
        """Returns the largest frame of an unauthenticated peer, given the bound of its tokens."""
        most = FRAME_BYTES_WITH_TICKET_MAX if has_tickets else FRAME_BYTES_BEFORE_LOGIN_MAX
        return min(token_bytes_max, most, self.frame_bytes_max)


@dataclass(slots=True)
class Counters:
    """Counters of a server since it started."""

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

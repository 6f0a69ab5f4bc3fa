"""The session of a login on an open connection: when it ends, and when the peer may log in again.

Source: KIP-368, `KafkaChannel.maybeBeginServerReauthentication` of Kafka: a connection whose session has ended is
closed by its next request, unless that begins another login. For the login itself, see
`trimaran.wire.security.sasl.authenticator`.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.security.sasl.authenticator import Login, SaslAuthenticator, SaslSettings

# Logins of mechanisms that block, of all connections; further ones wait.
LOGIN_THREADS = trio.CapacityLimiter(16)
# A login costs more than other requests; Kafka's number.
SECONDS_BETWEEN_LOGINS = 1.0


@dataclass(slots=True)
class Session:
    """`ends_at`, `login_began`: seconds of trio's clock; the latter of the last login that came after the first."""

    settings: SaslSettings
    login: Login
    ends_at: float
    login_began: float | None = None

    def begins_login(self, frame: memoryview, now: float) -> bool:
        """Whether the request begins another login, and may."""
        if int.from_bytes(frame[:2], "big") != ApiKey.SASL_HANDSHAKE:
            return False
        if self.login_began is not None and now - self.login_began < SECONDS_BETWEEN_LOGINS:
            return False
        self.login_began = now
        return True

    def authenticator(self) -> SaslAuthenticator:
        """Returns an authenticator that takes the same principal by the same mechanism only."""
        return SaslAuthenticator(self.settings, self.login)

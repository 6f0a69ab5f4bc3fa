"""The session of a login on an open connection: its end, and the times at which the peer may log in again.

Source: KIP-368, `KafkaChannel.maybeBeginServerReauthentication` of Kafka: a connection whose session has ended is
closed at its next request, unless that request begins another login. For the login itself, see
`trimaran.wire.security.sasl.authenticator`.
"""

from __future__ import annotations

from dataclasses import dataclass

from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.security.sasl.authenticator import Login, SaslAuthenticator, SaslSettings

# The shortest interval between logins, as in Kafka: a login costs more than other requests.
SECONDS_BETWEEN_LOGINS = 1.0


@dataclass(slots=True)
class Session:
    """A session. `ends_at` and `login_began` are in seconds of trio's clock; `login_began` is the time of the last
    reauthentication.
    """

    settings: SaslSettings
    login: Login
    ends_at: float
    login_began: float | None = None

    def begins_login(self, frame: memoryview, now: float) -> bool:
        """Whether the request begins a reauthentication that is permitted now."""
        if int.from_bytes(frame[:2], "big") != ApiKey.SASL_HANDSHAKE:
            return False
        if self.login_began is not None and now - self.login_began < SECONDS_BETWEEN_LOGINS:
            return False
        self.login_began = now
        return True

    def authenticator(self) -> SaslAuthenticator:
        """Returns an authenticator that accepts only the same principal and the same mechanism."""
        return SaslAuthenticator(self.settings, self.login)

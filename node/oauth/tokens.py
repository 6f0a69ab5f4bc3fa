"""Validation of a bearer token: its signature, issuer, audience and times.

The algorithms are those of the key that the token names, never those that the token itself names (RFC 8725). Therefore
`none` is refused, and so is a public key used as a shared secret. Source: `BrokerJwtValidator` of Kafka, KIP-768; for
development `OAuthBearerUnsecuredValidatorCallbackHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trimaran.node.oauth.compact import decoded
from trimaran.node.oauth.keys import KeySet
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.later import imported_later
from trimaran.wire.security.sasl.oauthbearer import BearerToken, TokenRefused

if TYPE_CHECKING:
    import jwt
else:
    jwt = imported_later("jwt")

log = logging.getLogger(__name__)

# A larger value makes no difference, and this one fits the field of the response.
_LIFETIME_MS_MAX = 1 << 53


@dataclass(frozen=True, slots=True)
class BearerTokenRules:
    """The rules of `sasl.oauthbearer.…`. Any issuer is accepted if `issuer` is None, and any audience if `audience` is
    empty; then the node's file has allowed that.
    """

    issuer: str | None = None
    audience: Sequence[str] = ()
    skew_seconds: int = 30
    subject_claim: str = "sub"


class SignedTokens:
    """Accepts tokens signed by one of `keys`."""

    def __init__(self, keys: KeySet, rules: BearerTokenRules) -> None:
        self.keys = keys
        self._rules = rules

    def validate(self, token: str) -> BearerToken:
        """Returns the valid token. Raises TokenRefused."""
        rules = self._rules
        required = ["exp", "iat", rules.subject_claim]
        try:
            key = self.keys.key(_key_id(jwt.get_unverified_header(token)))
            if key is None:
                raise TokenRefused("it names no key that is known")
            claims = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=list(rules.audience) or None,
                issuer=rules.issuer,
                leeway=rules.skew_seconds,
                options={"require": required, "verify_aud": bool(rules.audience)},
            )
            return _token(claims, rules, now_ms())
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            log.debug("a bearer token is refused: %s", type(error).__name__)
            raise TokenRefused(type(error).__name__) from error


class UnsecuredTokens:
    """Accepts any token with valid times: only for development, as the name of its key shows."""

    def __init__(self, rules: BearerTokenRules, now: Callable[[], int] = now_ms) -> None:
        self._rules = rules
        self._now_ms = now

    def validate(self, token: str) -> BearerToken:
        """Returns the valid token. Raises TokenRefused."""
        try:
            header, claims, signature = token.split(".")
            if signature or decoded(header).get("alg") != "none":
                raise TokenRefused("it is signed, and there is no key to check it by")
            found = _token(decoded(claims), self._rules, self._now_ms())
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise TokenRefused(type(error).__name__) from error
        if found.lifetime_ms <= -1000 * self._rules.skew_seconds:
            raise TokenRefused("it has run out")
        return found


def _key_id(header: dict[str, Any]) -> str | None:
    key_id = header.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise TokenRefused("the id of its key is no text")
    return key_id


def _token(claims: dict[str, Any], rules: BearerTokenRules, now: int) -> BearerToken:
    subject, expiry = claims.get(rules.subject_claim), claims.get("exp")
    if not isinstance(subject, str) or not subject.strip() or "\0" in subject:
        raise TokenRefused("it has no subject")
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        raise TokenRefused("it has no end")
    return BearerToken(subject, min(int(expiry * 1000) - now, _LIFETIME_MS_MAX))

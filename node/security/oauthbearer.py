"""OAUTHBEARER settings from keys: the identity provider of tokens, and the keys for validating tokens.

Source: `OAuthBearerLoginModule` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trimaran.node.oauth.keys import KeySetError, check_keys_url
from trimaran.node.oauth.login import (
    BearerCredentials,
    Retrieve,
    by_client_credentials,
    from_file,
    unsecured,
)
from trimaran.node.oauth.tokens import BearerTokenRules, SignedTokens, UnsecuredTokens
from trimaran.node.oauth.web import Web, WebError, check_url
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import Get, Mechanism, MechanismError, Options
from trimaran.wire.security.sasl import oauthbearer
from trimaran.wire.security.sasl.exchange import ClientMechanism, Exchange
from trimaran.wire.security.sasl.oauthbearer import OAuthBearerExchange, Validate

_KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_UNSECURED = "trimaran.oauthbearer.unsecured.allowed"
_ISSUER = "sasl.oauthbearer.expected.issuer"
_AUDIENCE = "sasl.oauthbearer.expected.audience"
_ANY_ISSUER = "sasl.oauthbearer.allow.unverified.issuer"
_ANY_AUDIENCE = "sasl.oauthbearer.allow.unverified.audience"
_SUBJECT = "unsecuredLoginStringClaim_sub"

OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def _exchanges(_mechanism: Mechanism, get: Get, logins: Logins, web: Web) -> Callable[[], Exchange]:
    return partial(OAuthBearerExchange, _validation(get, logins, web))


def _client(mechanism: Mechanism, get: Get, key: str, web: Web) -> ClientMechanism:
    options = mechanism.options(get(key), key, "") if get(key) else {}
    return BearerCredentials(_retrieve(get, options, web))


def _retrieve(get: Get, options: Options, web: Web) -> Retrieve:
    """Returns the source of tokens. Raises MechanismError."""
    url = get(_TOKEN_URL)
    if not url:
        if subject := options.get(_SUBJECT):
            return unsecured(subject)
        raise MechanismError(
            _TOKEN_URL, "is not set", "set it to where the identity provider gives tokens"
        )
    if url.startswith("file:"):
        return from_file(Path(unquote(urlsplit(url).path)))
    try:
        check_url(url)
    except WebError as error:
        raise MechanismError(_TOKEN_URL, str(error), "correct the URL") from None
    client_id = get(_CLIENT_ID) or options.get("clientId")
    secret = get(_CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not secret:
        raise MechanismError(
            _CLIENT_ID,
            "client id and secret are needed",
            f"set {_CLIENT_ID} and {_CLIENT_SECRET}",
        )
    scope = get("sasl.oauthbearer.scope") or options.get("scope")
    return by_client_credentials(web, url, client_id, secret, scope)


def _validation(get: Get, logins: Logins, web: Web) -> Validate:
    """Returns the function that validates tokens. No node starts without keys, unless its file allows unsecured
    tokens.
    """
    rules = BearerTokenRules(
        issuer=get(_ISSUER) or None,
        audience=tuple(get(_AUDIENCE)),
        skew_seconds=get("sasl.oauthbearer.clock.skew.seconds"),
        subject_claim=get("sasl.oauthbearer.sub.claim.name"),
    )
    url = get(_KEYS_URL)
    if bool(url) == get(_UNSECURED):
        why = "contradicts " + _UNSECURED if url else "is not set, and tokens are checked by keys"
        raise MechanismError(_KEYS_URL, why, "set it to where the identity provider tells its keys")
    if not url:
        return UnsecuredTokens(rules).validate
    _require_checks(get, rules)
    if find_spec("jwt") is None:
        raise MechanismError(
            _KEYS_URL, "checking tokens needs the package PyJWT", "pip install 'trimaran[oauth]'"
        )
    try:
        check_keys_url(url)
    except KeySetError as error:
        raise MechanismError(_KEYS_URL, str(error), "correct the URL") from None
    refresh = get("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000
    return SignedTokens(logins.key_set(url, web, refresh), rules).validate


def _require_checks(get: Get, rules: BearerTokenRules) -> None:
    """Raises MechanismError if tokens of any issuer or for any audience would be accepted without permission."""
    if not rules.audience and not get(_ANY_AUDIENCE):
        raise MechanismError(
            _AUDIENCE,
            "is not set, and tokens are issued for an audience",
            f"set it to the audience of this cluster, or {_ANY_AUDIENCE}=true to accept tokens for others",
        )
    if rules.issuer is None and not get(_ANY_ISSUER):
        raise MechanismError(
            _ISSUER,
            "is not set, and the keys may sign tokens of several issuers",
            f"set it to the issuer of the tokens, or {_ANY_ISSUER}=true to accept tokens of any issuer",
        )


OAUTHBEARER = Mechanism(
    oauthbearer.MECHANISM,
    OAUTHBEARER_MODULE,
    _exchanges,
    _client,
)

"""OAUTHBEARER settings from keys: the rules and keys for validating tokens, and the source of our own tokens
(`trimaran.node.security.token_sources`).

Source: `OAuthBearerLoginModule` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from trimaran.node.oauth.keys import KeySetError, check_keys_url
from trimaran.node.oauth.login import BearerCredentials
from trimaran.node.oauth.tokens import BearerTokenRules, SignedTokens, UnsecuredTokens
from trimaran.node.oauth.web import Web
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import Get, Mechanism, MechanismError
from trimaran.node.security.token_sources import token_source
from trimaran.wire.security.sasl import oauthbearer
from trimaran.wire.security.sasl.exchange import ClientMechanism, Exchange
from trimaran.wire.security.sasl.oauthbearer import OAuthBearerExchange, Validate

_KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_UNSECURED = "trimaran.oauthbearer.unsecured.allowed"
_ISSUER = "sasl.oauthbearer.expected.issuer"
_AUDIENCE = "sasl.oauthbearer.expected.audience"
_ANY_ISSUER = "sasl.oauthbearer.allow.unverified.issuer"
_ANY_AUDIENCE = "sasl.oauthbearer.allow.unverified.audience"

OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def _exchanges(_mechanism: Mechanism, get: Get, logins: Logins, web: Web) -> Callable[[], Exchange]:
    return partial(OAuthBearerExchange, _validation(get, logins, web))


def _client(mechanism: Mechanism, get: Get, key: str, web: Web) -> ClientMechanism:
    options = mechanism.options(get(key), key, "") if get(key) else {}
    return BearerCredentials(token_source(get, options, web))


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
    if find_spec("jwt") is None:
        raise MechanismError(
            _KEYS_URL, "checking tokens needs the package PyJWT", "pip install 'trimaran[oauth]'"
        )
    try:
        check_keys_url(url)
    except KeySetError as error:
        raise MechanismError(_KEYS_URL, str(error), "correct the URL") from None
    refresh = get("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000
    keys = logins.key_set(url, web, refresh)
    _require_checks(get, rules)
    return SignedTokens(keys, rules).validate


def _require_checks(get: Get, rules: BearerTokenRules) -> None:
    """Raises MechanismError if tokens of any issuer or for any audience would be accepted without permission. One error
    names both keys.
    """
    lacking = []
    if not rules.audience and not get(_ANY_AUDIENCE):
        why = "is not set, and tokens are issued for an audience"
        fix = f"set it to the audience of this cluster, or {_ANY_AUDIENCE}=true to accept tokens for others"
        lacking.append((_AUDIENCE, why, fix))
    if rules.issuer is None and not get(_ANY_ISSUER):
        why = "is not set, and the keys may sign tokens of several issuers"
        fix = f"set it to the issuer of the tokens, or {_ANY_ISSUER}=true to accept tokens of any issuer"
        lacking.append((_ISSUER, why, fix))
    if not lacking:
        return
    key, why, fix = lacking[0]
    for other, why_other, fix_other in lacking[1:]:
        why, fix = f"{why}; {other} {why_other}", f"{fix}; {other}: {fix_other}"
    raise MechanismError(key, why, fix)


OAUTHBEARER = Mechanism(
    oauthbearer.MECHANISM,
    OAUTHBEARER_MODULE,
    _exchanges,
    _client,
)

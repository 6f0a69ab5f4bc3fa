"""The source of the tokens of our own clients from Kafka's keys: a file, or a grant of the identity provider.

Source: `DefaultJwtRetriever`, `ClientCredentialsRequestFormatterFactory`, `AssertionSupplierFactory`, `ConfigOrJaas` of
Kafka; KIP-1139, KIP-1258.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from trimaran.node import events
from trimaran.node.config.oauthbearer_keys import (
    CLIENT_CREDENTIALS,
    DEFAULT_RETRIEVER,
    JWT_BEARER,
    TOKEN_FILE,
)
from trimaran.node.oauth.assertions import (
    AssertionFile,
    MakeAssertion,
    NoAssertion,
    SignedAssertions,
    SigningKey,
    Template,
)
from trimaran.node.oauth.grants import by_client_assertion, by_client_credentials, by_jwt_bearer
from trimaran.node.oauth.login import Retrieve, from_file, unsecured
from trimaran.node.oauth.web import Web, WebError, check_url
from trimaran.node.security.mechanism import Get, MechanismError, Options

log = logging.getLogger(__name__)

_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_SCOPE = "sasl.oauthbearer.scope"
_ASSERTION_FILE = "sasl.oauthbearer.assertion.file"
_KEY_FILE = "sasl.oauthbearer.assertion.private.key.file"
_TEMPLATE = "sasl.oauthbearer.assertion.template.file"
_CLAIMS = {
    "aud": "sasl.oauthbearer.assertion.claim.aud",
    "iss": "sasl.oauthbearer.assertion.claim.iss",
    "sub": "sasl.oauthbearer.assertion.claim.sub",
}
_SUBJECT = "unsecuredLoginStringClaim_sub"


def token_source(get: Get, options: Options, web: Web) -> Retrieve:
    """Returns the source of tokens from a client's keys, and from the options of its login module. Reads the files of
    assertions, so that a client with an unusable one does not start.

    Raises:
        MechanismError: a key is missing, or a file cannot be used.
    """
    url, retriever = _text(get, _TOKEN_URL), get(_RETRIEVER) or DEFAULT_RETRIEVER
    if not url:
        if (subject := options.get(_SUBJECT)) and retriever == DEFAULT_RETRIEVER:
            return unsecured(subject)
        raise MechanismError(
            _TOKEN_URL, "is not set", "set it to where the identity provider gives tokens"
        )
    is_file = url.lower().startswith("file:")
    if retriever == DEFAULT_RETRIEVER:
        retriever = TOKEN_FILE if is_file else CLIENT_CREDENTIALS
    if is_file is not (retriever == TOKEN_FILE):
        raise MechanismError(
            _TOKEN_URL,
            f"does not fit {retriever}",
            f"use a file: URL with {TOKEN_FILE}, and an https: URL with the others",
        )
    if is_file:
        return from_file(Path(unquote(urlsplit(url).path)))
    try:
        check_url(url)
    except WebError as error:
        raise MechanismError(_TOKEN_URL, str(error), "correct the URL") from None
    if retriever == JWT_BEARER:
        return by_jwt_bearer(web, url, _assertions(get), _text(get, _SCOPE))
    return _by_client_credentials(get, options, web, url)


def _by_client_credentials(get: Get, options: Options, web: Web, url: str) -> Retrieve:
    """Returns the grant with an assertion if there is one, else with the client secret."""
    client_id = _text(get, _CLIENT_ID) or options.get("clientId")
    scope = _text(get, _SCOPE) or options.get("scope")
    if _text(get, _ASSERTION_FILE) or _text(get, _CLAIMS["iss"]):
        return by_client_assertion(web, url, _assertions(get), client_id, scope)
    secret = get(_CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not secret:
        raise MechanismError(
            _CLIENT_ID,
            "client id and secret are needed",
            f"set {_CLIENT_ID} and {_CLIENT_SECRET}, or {_CLAIMS['iss']} to use an assertion",
        )
    is_quoted = bool(get("sasl.oauthbearer.header.urlencode"))
    return by_client_credentials(web, url, client_id, secret, scope, is_quoted=is_quoted)


def _assertions(get: Get) -> MakeAssertion:
    """Returns the source of assertions, after it has made one to check the files. Raises MechanismError."""
    claims = {claim: text for claim, key in _CLAIMS.items() if (text := _text(get, key))}
    template, key_file = _text(get, _TEMPLATE), _text(get, _KEY_FILE)
    if file := _text(get, _ASSERTION_FILE):
        if claims or template or key_file:
            events.OAUTH_ASSERTION_KEYS_UNUSED.log(log, file=file)
        finished = AssertionFile(Path(file))
        _try(_ASSERTION_FILE, finished.make)
        return finished.make
    if not key_file:
        raise MechanismError(
            _KEY_FILE,
            "is not set, and a private key signs assertions",
            f"set it to a PEM file, or {_ASSERTION_FILE} to a file with a finished assertion",
        )
    if find_spec("jwt") is None:
        raise MechanismError(
            _KEY_FILE, "signing needs the package PyJWT", "pip install 'trimaran[oauth]'"
        )
    key = SigningKey(
        Path(key_file),
        get("sasl.oauthbearer.assertion.algorithm").upper(),  # JWS names are case-sensitive
        _text(get, "sasl.oauthbearer.assertion.private.key.passphrase"),
    )
    signed = SignedAssertions(
        key,
        claims,
        Template(Path(template)) if template else None,
        get("sasl.oauthbearer.assertion.claim.exp.seconds"),
        get("sasl.oauthbearer.assertion.claim.nbf.seconds"),
        get("sasl.oauthbearer.assertion.claim.jti.include"),
    )
    _try(_KEY_FILE, key.load)
    _try(_TEMPLATE, signed.make)
    return signed.make


def _try(key: str, use: Callable[[], object]) -> None:
    """Uses the file of `key` once. Raises MechanismError."""
    try:
        use()
    except NoAssertion as error:
        raise MechanismError(key, error.why, error.fix) from None


def _text(get: Get, key: str) -> str | None:
    """Returns the text without blanks at its ends; None for an empty one."""
    return (get(key) or "").strip() or None

"""Requests of tokens from an identity provider, one function for each grant: client credentials, with a secret or with
an assertion, and an assertion alone.

Source: RFC 6749, sections 4.4 and 5; RFC 7523, section 2; KIP-1139, KIP-1258; `ClientCredentialsJwtRetriever`,
`JwtBearerJwtRetriever`, `JwtResponseParser` of Kafka.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from urllib.parse import quote_plus, urlencode

from trimaran.node.oauth.assertions import MakeAssertion, NoAssertion
from trimaran.node.oauth.login import Fetched, Retrieve
from trimaran.node.oauth.web import StatusError, Web, WebError
from trimaran.wire.client.errors import AuthenticationRefused

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# A larger difference of clocks is shown in the error, because it makes assertions invalid; the default of
# `sasl.oauthbearer.clock.skew.seconds`.
_SKEW_SECONDS = 30
# The error codes of RFC 6749, section 5.2, with their remedies. No other text of a refusal is shown.
_REMEDIES = {
    "invalid_request": "compare sasl.oauthbearer.… with what the provider requires",
    "invalid_client": "check the client id, and its secret or the key and the claims of its assertion",
    "invalid_grant": "check issuer, subject, audience and times of the assertion, and the key that signs it",
    "unauthorized_client": "allow this client to use this grant at the provider",
    "unsupported_grant_type": "use another sasl.oauthbearer.jwt.retriever.class",
    "invalid_scope": "correct sasl.oauthbearer.scope",
}
Form = Mapping[str, str]


def by_client_credentials(
    web: Web,
    url: str,
    client_id: str,
    client_secret: str,
    scope: str | None,
    *,
    is_quoted: bool = False,
) -> Retrieve:
    """Returns a function that requests tokens as that client; `is_quoted` encodes id and secret as RFC 6749 does."""
    quoted = [quote_plus(text) if is_quoted else text for text in (client_id, client_secret)]
    basic = base64.b64encode(":".join(quoted).encode()).decode()
    form = {"grant_type": "client_credentials", **_scope(scope)}
    return lambda: _requested(web, url, lambda: form, {"Authorization": f"Basic {basic}"})


def by_client_assertion(
    web: Web, url: str, make: MakeAssertion, client_id: str | None, scope: str | None
) -> Retrieve:
    """Returns a function that requests tokens as the client of the assertion; most providers need no `client_id`."""

    def form() -> Form:
        named = {"client_id": client_id} if client_id else {}
        proof = {"client_assertion_type": CLIENT_ASSERTION, "client_assertion": make()}
        return {**proof, "grant_type": "client_credentials", **named, **_scope(scope)}

    return lambda: _requested(web, url, form)


def by_jwt_bearer(web: Web, url: str, make: MakeAssertion, scope: str | None) -> Retrieve:
    """Returns a function that exchanges an assertion for a token."""
    return lambda: _requested(
        web, url, lambda: {"grant_type": JWT_BEARER, "assertion": make(), **_scope(scope)}
    )


def _scope(scope: str | None) -> Form:
    return {"scope": scope} if scope else {}


def _requested(
    web: Web, url: str, form: Callable[[], Form], headers: Mapping[str, str] | None = None
) -> Fetched:
    """Returns the token that the endpoint gives for the form. Raises AuthenticationRefused."""
    headers = {**(headers or {}), "Content-Type": "application/x-www-form-urlencoded"}
    try:
        return _token(web.post(url, headers, urlencode(form()).encode()))
    except NoAssertion as error:
        raise AuthenticationRefused(f"there is no assertion: {error}") from error
    except StatusError as error:
        raise AuthenticationRefused(f"there is no token: {error}{_remedy(error)}") from error
    except WebError as error:
        raise AuthenticationRefused(f"there is no token: {error}") from error
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        # `from None`: the error of a decoder shows a part of the answer.
        raise AuthenticationRefused("the identity provider's answer holds no token") from None


def _token(data: bytes) -> Fetched:
    """Returns the token in an answer. Raises ValueError, TypeError, AttributeError, OverflowError or
    RecursionError.
    """
    answer = json.loads(data)
    texts = [answer.get(name) for name in ("access_token", "id_token")]
    token = next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")
    seconds = float(answer.get("expires_in", 0))
    if not token or not token.isascii() or not math.isfinite(seconds):
        raise ValueError("no token")
    return Fetched(token, seconds)


def _remedy(error: StatusError) -> str:
    """Returns the error code of a refusal with its remedy, and the difference of clocks; empty if there is neither."""
    try:
        code = json.loads(error.body)["error"]
        told = f" ({code}); {_REMEDIES[code]}"
    except (ValueError, TypeError, LookupError, RecursionError):
        told = ""
    ahead = round(error.seconds_ahead)
    if abs(ahead) > _SKEW_SECONDS:
        told += (
            f"; its clock is {abs(ahead)} s {'ahead of' if ahead > 0 else 'behind'} the clock here"
        )
    return told

"""Keys of SASL OAUTHBEARER for listeners, for nodes as clients, and for commands.

Source: Kafka's `SaslConfigs`, KIP-768, KIP-1139, KIP-1258; `BrokerJwtValidator` of Kafka 4.4.
"""

from __future__ import annotations

from trimaran.node.config.config_def import ConfigKey, at_least, one_of
from trimaran.node.config.key_rows import rows

_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
VALIDATORS = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)
LOGIN_HANDLERS = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
DEFAULT_RETRIEVER = f"{_PACKAGE}.DefaultJwtRetriever"
CLIENT_CREDENTIALS = f"{_PACKAGE}.ClientCredentialsJwtRetriever"
TOKEN_FILE = f"{_PACKAGE}.FileJwtRetriever"
JWT_BEARER = f"{_PACKAGE}.JwtBearerJwtRetriever"


def _signs_assertions(name: str) -> str | None:
    """Accepts the names in any case, as Kafka does."""
    return one_of("ES256", "RS256")(name.upper())


_SERVER = (
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.url",
        "string",
        None,
        "Keys that verify tokens: https://… of the identity provider, or file:///….",
    ),
    ConfigKey(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "long",
        3_600_000,
        "Time between two readings of the provider's keys.",
        at_least(1),
        importance="low",
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.issuer",
        "string",
        None,
        "Issuer that a token must have.",
        importance="high",
    ),
    ConfigKey(
        "sasl.oauthbearer.allow.unverified.issuer",
        "boolean",
        False,
        "Accepts tokens of any issuer if no expected issuer is set.",
    ),
    ConfigKey(
        "sasl.oauthbearer.expected.audience",
        "list",
        [],
        "Audiences that a token may be for.",
        importance="high",
    ),
    ConfigKey(
        "sasl.oauthbearer.allow.unverified.audience",
        "boolean",
        False,
        "Accepts tokens for any audience if no expected audience is set.",
    ),
    ConfigKey(
        "sasl.oauthbearer.clock.skew.seconds",
        "int",
        30,
        "Difference of clocks that is tolerated in a token's times.",
        at_least(0),
        importance="low",
    ),
    ConfigKey(
        "sasl.oauthbearer.sub.claim.name",
        "string",
        "sub",
        "Claim of a token that holds its subject, the name of the principal.",
        importance="low",
    ),
    ConfigKey(
        "trimaran.oauthbearer.unsecured.allowed",
        "boolean",
        False,
        "Accepts unsigned tokens: any client may claim any identity. Only for development.",
    ),
)
OAUTHBEARER_CLIENT = (
    ConfigKey(
        "sasl.oauthbearer.token.endpoint.url",
        "string",
        None,
        "Where our own clients get tokens: https://… of the identity provider, or file:///… with a token.",
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.id",
        "string",
        None,
        "Client id for the identity provider.",
    ),
    ConfigKey(
        "sasl.oauthbearer.client.credentials.client.secret",
        "password",
        None,
        "Client secret for the identity provider.",
    ),
    ConfigKey(
        "sasl.oauthbearer.header.urlencode",
        "boolean",
        False,
        "Whether client id and secret are sent URL-encoded, as RFC 6749 requires.",
        importance="low",
        undeclared=True,
    ),
    ConfigKey("sasl.oauthbearer.scope", "string", None, "The requested scope."),
    ConfigKey(
        "sasl.oauthbearer.jwt.retriever.class",
        "class",
        DEFAULT_RETRIEVER,
        "How our own clients get tokens, by the name of Kafka's class.",
        one_of(DEFAULT_RETRIEVER, CLIENT_CREDENTIALS, TOKEN_FILE, JWT_BEARER),
    ),
    ConfigKey(
        "sasl.oauthbearer.assertion.algorithm",
        "string",
        "RS256",
        "Algorithm that signs assertions: RS256, or ES256.",
        _signs_assertions,
    ),
    *rows(
        """
sasl.oauthbearer.assertion.claim.aud | string | null | medium
    Audience of assertions.
sasl.oauthbearer.assertion.claim.exp.seconds | int 0..86400 | 300 | low
    Lifetime of an assertion.
sasl.oauthbearer.assertion.claim.iss | string | null | medium
    Issuer of assertions. With client credentials, assertions then replace the client secret.
sasl.oauthbearer.assertion.claim.jti.include | boolean | false | medium
    Whether each assertion has an id of its own.
sasl.oauthbearer.assertion.claim.nbf.seconds | int 0..3600 | 60 | low
    An assertion is valid from this long before it is made, for a provider with a slow clock.
sasl.oauthbearer.assertion.claim.sub | string | null | medium
    Subject of assertions.
sasl.oauthbearer.assertion.file | string | null | medium
    File with a finished assertion, read each time. The other keys of assertions then have no effect.
sasl.oauthbearer.assertion.private.key.file | string | null | medium
    PEM file with the private key that signs assertions, read each time.
sasl.oauthbearer.assertion.private.key.passphrase | password | null | medium
    Passphrase of that key, if it is encrypted.
sasl.oauthbearer.assertion.template.file | string | null | medium
    JSON file with more claims and headers of assertions, as {"header": {…}, "payload": {…}}.
"""
    ),
)
# Keys of a node; each may also be set for one listener.
OAUTHBEARER = (*_SERVER, *OAUTHBEARER_CLIENT)
# Kafka's users name these classes. Their function is built in here, and no other class is accepted.
OAUTHBEARER_HANDLERS = (
    ConfigKey(
        "oauthbearer.sasl.server.callback.handler.class",
        "class",
        VALIDATORS[0],
        "The validator of tokens, by the name of Kafka's class.",
        one_of(*VALIDATORS),
    ),
    ConfigKey(
        "oauthbearer.sasl.login.callback.handler.class",
        "class",
        LOGIN_HANDLERS[0],
        "The source of tokens for our own logins, by the name of Kafka's class.",
        one_of(*LOGIN_HANDLERS),
    ),
)
OAUTHBEARER_NOT_SERVED = rows(
    """
sasl.login.connect.timeout.ms | int | null | low
    Time a connection to the identity provider may take.
sasl.login.read.timeout.ms | int | null | low
    Time the identity provider may take to answer.
sasl.login.retry.backoff.max.ms | long | 10000 | low
    Longest wait between attempts to log in.
sasl.login.retry.backoff.ms | long | 100 | low
    First wait between attempts to log in.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms | long | 10000 | low
    Longest wait between attempts to read the provider's keys.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms | long | 100 | low
    First wait between attempts to read the provider's keys.
""",
    no_effect="an answer of the identity provider has ten seconds, and is requested again when needed",
) + rows(
    """
sasl.oauthbearer.jwt.validator.class | class | org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator | medium
    Java class that checks tokens.
sasl.oauthbearer.scope.claim.name | string | scope | low
    Claim of a token that holds its scope.
""",
    no_effect="a token is checked by its signature, issuer, audience and times, and its scope means nothing here",
)


def why_without_effect(name: str) -> str | None:
    """Returns the reason why a key of OAUTHBEARER has no effect, for nodes and for clients; None for other keys."""
    return next((key.no_effect for key in OAUTHBEARER_NOT_SERVED if key.name == name), None)

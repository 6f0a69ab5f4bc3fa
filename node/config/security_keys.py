"""Keys of TLS and SASL. Each may also be set for one listener, as `listener.name.LISTENER.KEY`, which goes before.

Source: Kafka's `SslConfigs`, `BrokerSecurityConfigs`, KIP-103, KIP-651 (PEM).
"""

from __future__ import annotations

from node.config.config_def import ConfigKey, all_of, at_least, one_of
from wire.endpoint import SECURITY_PROTOCOLS
from wire.security.sasl import FAILURE_DELAY_SECONDS, TOKEN_BYTES_MAX
from wire.security.tls import STORE_TYPES, VERSIONS

PROTOCOLS = tuple(SECURITY_PROTOCOLS.values())
_STORE_TYPE = one_of(*STORE_TYPES)

TLS = (
    ConfigKey(
        "ssl.keystore.type", "string", "JKS", "PEM or PKCS12; JKS is not read here.", _STORE_TYPE
    ),
    ConfigKey("ssl.keystore.location", "string", None, "File with private key and certificates."),
    ConfigKey("ssl.keystore.password", "password", None, "Password of that file (PKCS12)."),
    ConfigKey("ssl.keystore.key", "password", None, "Private key as PEM text."),
    ConfigKey("ssl.keystore.certificate.chain", "password", None, "Its certificates as PEM text."),
    ConfigKey("ssl.key.password", "password", None, "Password of the private key."),
    ConfigKey(
        "ssl.truststore.type", "string", "JKS", "PEM or PKCS12; JKS is not read here.", _STORE_TYPE
    ),
    ConfigKey("ssl.truststore.location", "string", None, "File with certificates to trust."),
    ConfigKey("ssl.truststore.password", "password", None, "Password of that file (PKCS12)."),
    ConfigKey("ssl.truststore.certificates", "password", None, "The same as PEM text."),
    ConfigKey("ssl.enabled.protocols", "list", [*VERSIONS], "TLS versions.", all_of(*VERSIONS)),
    ConfigKey(
        "ssl.cipher.suites",
        "list",
        [],
        "Cipher suites of TLS 1.2; none: the safe ones.",
        importance="low",
    ),
    ConfigKey(
        "ssl.endpoint.identification.algorithm",
        "string",
        "https",
        "https: a client compares the name in the server's certificate; empty: it does not.",
        one_of("https", "HTTPS", ""),
        importance="low",
    ),
)
SERVER_SECURITY = (
    *TLS,
    ConfigKey(
        "ssl.client.auth",
        "string",
        "none",
        "Whether clients show a certificate.",
        one_of("none", "requested", "required"),
    ),
    ConfigKey(
        "security.inter.broker.protocol",
        "string",
        "PLAINTEXT",
        "Protocol, and listener of the same name, that brokers reach each other by.",
        one_of(*PROTOCOLS),
    ),
    ConfigKey(
        "sasl.enabled.mechanisms",
        "list",
        ["GSSAPI"],
        "SASL mechanisms offered; PLAIN is implemented.",
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol", "string", "GSSAPI", "Mechanism between brokers."
    ),
    ConfigKey(
        "sasl.mechanism.controller.protocol", "string", "GSSAPI", "Mechanism towards controllers."
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        "int",
        TOKEN_BYTES_MAX,
        "Largest request before authentication.",
        at_least(1),
    ),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        "int",
        int(FAILURE_DELAY_SECONDS * 1000),
        "How late a failure is told.",
        at_least(0),
        importance="low",
    ),
)
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _known_authorizer(name: str) -> str | None:
    known = not name or name == STANDARD_AUTHORIZER
    return None if known else f"the one authorizer here is {STANDARD_AUTHORIZER}"


ACCESS = (
    ConfigKey(
        "authorizer.class.name",
        "string",
        "",
        "Who may do what: by ACLs, or, if empty, everybody everything. Decides about administration; not yet about records and groups.",
        _known_authorizer,
        importance="low",
    ),
    ConfigKey(
        "super.users", "string", "", "Principals that may do everything: User:alice;User:bob."
    ),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        "boolean",
        False,
        "What no ACL is about is open to all.",
    ),
    ConfigKey(
        "delegation.token.secret.key",
        "password",
        None,
        "Key of the HMACs of delegation tokens, the same on all nodes; without it there are no tokens.",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        "long",
        7 * 24 * 3600 * 1000,
        "A token cannot be renewed beyond this age.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        "long",
        24 * 3600 * 1000,
        "A token is valid this long before it must be renewed.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        "long",
        3600 * 1000,
        "Between looks for expired tokens.",
        at_least(1),
        importance="low",
    ),
)
CLIENT_SECURITY = (
    *TLS,
    ConfigKey(
        "security.protocol", "string", "PLAINTEXT", "How to talk to nodes.", one_of(*PROTOCOLS)
    ),
    ConfigKey("sasl.mechanism", "string", "GSSAPI", "SASL mechanism; PLAIN is implemented."),
    ConfigKey("sasl.jaas.config", "password", None, "User name and password."),
)
# Only ever set for one listener and one mechanism: `listener.name.L.plain.sasl.jaas.config`.
LISTENER_JAAS = ConfigKey(
    "plain.sasl.jaas.config", "password", None, "Users of PLAIN on this listener, and our own name."
)

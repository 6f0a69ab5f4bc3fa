"""Keys of TLS and SASL. Each may also be set for one listener, as `listener.name.LISTENER.KEY`, which takes precedence.

Source: Kafka's `SslConfigs`, `BrokerSecurityConfigs`, KIP-103, KIP-651 (PEM).
"""

from __future__ import annotations

from dataclasses import replace

from trimaran.node.config.config_def import ConfigKey, all_of, at_least, one_of
from trimaran.node.config.kerberos_keys import KERBEROS, KERBEROS_CLIENT
from trimaran.node.config.oauthbearer_keys import OAUTHBEARER, OAUTHBEARER_CLIENT
from trimaran.node.security.mechanisms import MECHANISMS
from trimaran.wire.security.principal import PrincipalMapping
from trimaran.wire.security.sasl.authenticator import FAILURE_DELAY_SECONDS, TOKEN_BYTES_MAX
from trimaran.wire.security.tls.contexts import STORE_TYPES, VERSIONS
from trimaran.wire.text.endpoint import SECURITY_PROTOCOLS

_NO_JAVA = "classes of Java do not run here"
PROTOCOLS = tuple(SECURITY_PROTOCOLS.values())
_STORE_TYPE = one_of(*STORE_TYPES)

TLS = (
    ConfigKey("ssl.keystore.type", "string", "JKS", "PEM, PKCS12 or JKS.", _STORE_TYPE),
    ConfigKey("ssl.keystore.location", "string", None, "File with private key and certificates."),
    ConfigKey("ssl.keystore.password", "password", None, "Password of the keystore (PKCS12)."),
    ConfigKey("ssl.keystore.key", "password", None, "Private key as PEM text."),
    ConfigKey(
        "ssl.keystore.certificate.chain",
        "password",
        None,
        "Certificates of the private key as PEM text.",
    ),
    ConfigKey("ssl.key.password", "password", None, "Password of the private key."),
    ConfigKey("ssl.truststore.type", "string", "JKS", "PEM, PKCS12 or JKS.", _STORE_TYPE),
    ConfigKey("ssl.truststore.location", "string", None, "File with the certificates to trust."),
    ConfigKey("ssl.truststore.password", "password", None, "Password of the truststore (PKCS12)."),
    ConfigKey(
        "ssl.truststore.certificates", "password", None, "Certificates to trust as PEM text."
    ),
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
    ConfigKey(
        "trimaran.ssl.crl.location",
        "string",
        None,
        "File with revocation lists in PEM; a peer is refused if its certificate is in one, or its issuer has none.",
    ),
)


def _mapping_rules(text: str) -> str | None:
    try:
        PrincipalMapping(text)
    except ValueError as error:
        return str(error)
    return None


REAUTH = ConfigKey(
    "connections.max.reauth.ms",
    "long",
    0,
    "Time after which clients of SASL must authenticate again; 0 for as long as their credentials are valid.",
)
SERVER_SECURITY = (
    *TLS,
    REAUTH,
    ConfigKey(
        "ssl.principal.mapping.rules",
        "string",
        "DEFAULT",
        "Rules that make principals of the names in certificates: RULE:pattern/replacement/[LU],…,DEFAULT.",
        _mapping_rules,
        importance="low",
    ),
    *OAUTHBEARER,
    *KERBEROS,
    ConfigKey(
        "trimaran.sasl.plain.callback",
        "string",
        None,
        "Entry point of the group trimaran.sasl.plain: a function that checks names and passwords of PLAIN.",
    ),
    ConfigKey(
        "ssl.client.auth",
        "string",
        "none",
        "Whether clients must show a certificate.",
        one_of("none", "requested", "required"),
    ),
    ConfigKey(
        "security.inter.broker.protocol",
        "string",
        "PLAINTEXT",
        "Protocol, and listener of the same name, for connections between brokers.",
        one_of(*PROTOCOLS),
    ),
    ConfigKey(
        "sasl.enabled.mechanisms",
        "list",
        ["GSSAPI"],
        f"SASL mechanisms offered: {', '.join(MECHANISMS)}.",
    ),
    ConfigKey(
        "sasl.mechanism.inter.broker.protocol",
        "string",
        "GSSAPI",
        "Mechanism for connections between brokers.",
    ),
    ConfigKey(
        "sasl.mechanism.controller.protocol",
        "string",
        "GSSAPI",
        "Mechanism for connections to controllers.",
    ),
    ConfigKey(
        "sasl.server.max.receive.size",
        "int",
        TOKEN_BYTES_MAX,
        "Largest request before authentication, never more than 28 KiB here, with GSSAPI 68 KiB.",
        at_least(1),
    ),
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        "int",
        int(FAILURE_DELAY_SECONDS * 1000),
        "Time before a failed authentication is answered.",
        at_least(0),
        importance="low",
    ),
)
# A value other than the default would restrict the permitted connections, their principals, or their operations.
REFUSED = (
    ConfigKey(
        "principal.builder.class",
        "class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "Java class that makes principals of connections.",
        only_default=f"{_NO_JAVA}, so connections would have other principals",
    ),
    ConfigKey(
        "sasl.server.callback.handler.class",
        "class",
        None,
        "Java class that checks the credentials of clients.",
        only_default=f"{_NO_JAVA}, so credentials would be checked by other rules",
    ),
    ConfigKey(
        "ssl.engine.factory.class",
        "class",
        None,
        "Java class that makes TLS engines.",
        importance="low",
        only_default=f"{_NO_JAVA}, so certificates would be checked by other rules",
    ),
)
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _known_authorizer(name: str) -> str | None:
    known = not name or name == STANDARD_AUTHORIZER
    return None if known else f"the one authorizer here is {STANDARD_AUTHORIZER}"


ACCESS = (
    ConfigKey(
        "create.topic.policy.class.name",
        "class",
        None,
        "Entry point of the group trimaran.policy.create_topic: a function that decides which topics may be created.",
        importance="low",
    ),
    ConfigKey(
        "alter.config.policy.class.name",
        "class",
        None,
        "Entry point of the group trimaran.policy.alter_config: a function that decides which configs may be altered.",
        importance="low",
    ),
    ConfigKey(
        "authorizer.class.name",
        "string",
        "",
        "Authorizer class. Without it, every client may do everything.",
        _known_authorizer,
        importance="low",
    ),
    ConfigKey(
        "super.users",
        "string",
        "",
        "Principals that may do everything: User:alice;User:bob.",
        undeclared=True,
    ),
    ConfigKey(
        "allow.everyone.if.no.acl.found",
        "boolean",
        False,
        "Whether a resource without any ACL is open to all.",
        undeclared=True,
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
        "Time between two searches for expired tokens.",
        at_least(1),
        importance="low",
    ),
)
CLIENT_SECURITY = (
    *TLS,
    *OAUTHBEARER_CLIENT,
    *KERBEROS_CLIENT,
    ConfigKey(
        "security.protocol", "string", "PLAINTEXT", "How to talk to nodes.", one_of(*PROTOCOLS)
    ),
    ConfigKey("sasl.mechanism", "string", "GSSAPI", "SASL mechanism."),
    ConfigKey(
        "sasl.jaas.config",
        "password",
        None,
        "Login module: user name and password, or keytab or ticket cache.",
    ),
)
# Set only for one listener and one mechanism: `listener.name.L.plain.sasl.jaas.config`.
LISTENER_JAAS = tuple(
    ConfigKey(
        mechanism.jaas_key,
        "password",
        None,
        "Our own name on this listener, and of PLAIN all users.",
    )
    for mechanism in MECHANISMS.values()
)
LISTENER_REAUTH = tuple(
    replace(REAUTH, name=f"{name.lower()}.{REAUTH.name}") for name in MECHANISMS
)

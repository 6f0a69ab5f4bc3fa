"""ZooKeeper keys: those of Kafka's ZooKeeper mode, and trimaran's own for the mirror."""

from __future__ import annotations

from trimaran.node.config.config_def import ConfigKey, at_least, one_of

_STORE_TYPES = one_of("JKS", "PKCS12", "PEM")
_NO_REVOCATION = "revocation of certificates is not checked here"

_TLS = (
    ConfigKey(
        "zookeeper.ssl.client.enable",
        "boolean",
        False,
        "Whether to speak TLS with ZooKeeper.",
    ),
    ConfigKey(
        "zookeeper.clientCnxnSocket",
        "string",
        None,
        "Java class of connections to ZooKeeper.",
        no_effect="connections are not of Java here; zookeeper.ssl.client.enable chooses TLS",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.location",
        "string",
        None,
        "File with the private key and certificate that are shown to ZooKeeper.",
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.password", "password", None, "Password of the key store, or key."
    ),
    ConfigKey(
        "zookeeper.ssl.keystore.type",
        "string",
        None,
        "Form of the key store; by the ending of its file when not set.",
        _STORE_TYPES,
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.location",
        "string",
        None,
        "File with the certificates that ZooKeeper's is checked against.",
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.password", "password", None, "Password of the trust store."
    ),
    ConfigKey(
        "zookeeper.ssl.truststore.type",
        "string",
        None,
        "Form of the trust store; by the ending of its file when not set.",
        _STORE_TYPES,
    ),
    ConfigKey(
        "zookeeper.ssl.protocol",
        "string",
        "TLSv1.2",
        "Version of TLS, where zookeeper.ssl.enabled.protocols names none; both where neither is set.",
        one_of("TLSv1.2", "TLSv1.3"),
    ),
    ConfigKey(
        "zookeeper.ssl.enabled.protocols",
        "list",
        None,
        "Versions of TLS that may be spoken with ZooKeeper.",
    ),
    ConfigKey(
        "zookeeper.ssl.cipher.suites",
        "list",
        None,
        "Cipher suites that may be used with ZooKeeper.",
    ),
    ConfigKey(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "string",
        "HTTPS",
        "Whether the name of a server is compared with its certificate: HTTPS, or empty for no comparison.",
    ),
    ConfigKey(
        "zookeeper.ssl.crl.enable",
        "boolean",
        False,
        "Whether revocation lists are checked.",
        only_default=_NO_REVOCATION,
    ),
    ConfigKey(
        "zookeeper.ssl.ocsp.enable",
        "boolean",
        False,
        "Whether the revocation of certificates is checked online.",
        only_default=_NO_REVOCATION,
    ),
)

ZOOKEEPER = (
    ConfigKey(
        "zookeeper.connect",
        "string",
        None,
        "ZooKeeper that is mirrored into, host:port/chroot.",
    ),
    ConfigKey(
        "zookeeper.session.timeout.ms",
        "int",
        18_000,
        "Session timeout of the mirror.",
        at_least(100),
    ),
    ConfigKey(
        "zookeeper.connection.timeout.ms",
        "int",
        None,
        "Time a connection to ZooKeeper may take.",
        no_effect="the mirror goes on connecting until it is stopped",
    ),
    ConfigKey(
        "zookeeper.max.in.flight.requests",
        "int",
        10,
        "Most requests to ZooKeeper that wait for a response.",
        at_least(1),
        no_effect="the mirror sends one transaction after the other, each of many operations",
    ),
    ConfigKey(
        "zookeeper.set.acl",
        "boolean",
        False,
        "Whether only the mirror's user may write the znodes that it creates, and read sensitive ones.",
    ),
    ConfigKey(
        "zookeeper.metadata.migration.enable",
        "boolean",
        False,
        "Whether a controller mirrors metadata into ZooKeeper while it leads.",
    ),
    ConfigKey(
        "zookeeper.metadata.migration.min.batch.size",
        "int",
        200,
        "Operations of a transaction of the mirror.",
        at_least(1),
    ),
    *_TLS,
    ConfigKey(
        "trimaran.zk.mirror.enable",
        "boolean",
        None,
        "Whether a controller mirrors metadata into ZooKeeper while it leads; it takes precedence over "
        "zookeeper.metadata.migration.enable.",
    ),
    ConfigKey(
        "trimaran.zk.auth",
        "password",
        None,
        "User of the mirror in ZooKeeper, SCHEME:CREDENTIALS, as in digest:user:password.",
    ),
    ConfigKey(
        "trimaran.zk.sasl.jaas.config",
        "password",
        None,
        "User of the mirror in ZooKeeper by SASL: the login module DigestLoginModule with username and password.",
    ),
    ConfigKey(
        "trimaran.zk.mirror.secrets.enable",
        "boolean",
        False,
        "Whether SCRAM credentials and delegation tokens are mirrored, for the mirror's user only.",
    ),
    ConfigKey(
        "trimaran.zk.mirror.verify.interval.ms",
        "long",
        60_000,
        "Time within which the whole mirrored tree is compared with the metadata; a small one is compared more often.",
        at_least(100),
    ),
)

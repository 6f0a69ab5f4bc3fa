"""The mirror's settings, from Kafka's `zookeeper.*` keys and ours. A setting that cannot be obeyed prevents the start.

Source: `ZKConfig` and `KafkaZkClient.createZkClient` of Kafka 3.9. JAAS is given by value, and classes are names only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server_keys import SERVER_CONFIGS
from trimaran.node.security.listener_security import client_security
from trimaran.wire.security.listener import ClientSecurity
from trimaran.wire.security.sasl.jaas import parse_jaas
from trimaran.wire.security.tls.contexts import TlsError, TlsSettings, client_context
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.mirroring.mirror import MirrorConfig
from trimaran.zkcompat.zookeeper.digest_md5 import DigestCredentials
from trimaran.zkcompat.zookeeper.kazoo_client import Security
from trimaran.zkcompat.zookeeper.session import KeeperConfig

Properties = Mapping[str, str]
NONE: Properties = {}

DIGEST_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_JAAS = "trimaran.zk.sasl.jaas.config"
_STORE_TYPES = {".p12": "PKCS12", ".pfx": "PKCS12", ".pem": "PEM"}


@dataclass(frozen=True, slots=True)
class Given:
    """A value of the file, with its position in the file for error messages."""

    value: str
    origin: str = ""


def quorum_security(properties: Properties) -> ClientSecurity:
    """Returns the security of connections to controllers: Kafka's client keys (`security.protocol`, `ssl.…`, `sasl.…`).

    ValueError names key and value.
    """
    try:
        return client_security({key: Given(value) for key, value in properties.items()})
    except ConfigError as error:
        raise ValueError(str(error)) from error


def mirror_config(properties: Properties) -> MirrorConfig:
    """Returns the mirror's configuration. ValueError names key and value."""
    secrets = bool(_value(properties, "trimaran.zk.mirror.secrets.enable"))
    if secrets and not _security(properties).authenticates:
        raise ValueError(
            "trimaran.zk.mirror.secrets.enable=true: trimaran.zk.auth or trimaran.zk.sasl.jaas.config must name the "
            "user for whose eyes they are"
        )
    return MirrorConfig(
        batch_operations=_value(properties, "zookeeper.metadata.migration.min.batch.size"),
        verify_interval_seconds=_value(properties, "trimaran.zk.mirror.verify.interval.ms") / 1000,
        secrets=secrets,
    )


def keeper_config(connect: str, properties: Properties) -> KeeperConfig:
    """Returns the configuration of ZooKeeper sessions. ValueError names key and value."""
    security = _security(properties)
    secured = bool(_value(properties, "zookeeper.set.acl"))
    if secured and not security.authenticates:
        raise ValueError(
            "zookeeper.set.acl=true: trimaran.zk.auth or trimaran.zk.sasl.jaas.config must name the user"
        )
    timeout_ms = _value(properties, "zookeeper.session.timeout.ms")
    return KeeperConfig(connect, timeout_ms, secured=secured, security=security)


def _security(properties: Properties) -> Security:
    auth = _value(properties, "trimaran.zk.auth") or ""
    scheme, _, credentials = auth.partition(":")
    if auth and not credentials:
        raise ValueError(
            "trimaran.zk.auth: SCHEME:CREDENTIALS is expected, as in digest:user:password"
        )
    jaas = _value(properties, _JAAS)
    return Security(
        tls=_tls(properties) if _value(properties, "zookeeper.ssl.client.enable") else None,
        sasl=_digest(jaas) if jaas else None,
        auth=((scheme, credentials),) if auth else (),
    )


def _digest(jaas: str) -> DigestCredentials:
    try:
        module = parse_jaas(jaas)
    except ValueError as error:
        raise ValueError(f"{_JAAS}: {error}") from error
    if module.name == KERBEROS_MODULE:
        raise ValueError(
            f"{_JAAS}: Kerberos (GSSAPI) is not implemented; use {DIGEST_MODULE}, inside TLS"
        )
    if module.name != DIGEST_MODULE:
        raise ValueError(f"{_JAAS}: {module.name} is not known; use {DIGEST_MODULE}")
    user, password = (
        module.options.get("username"),
        module.options.get("password"),
    )
    if not user or not password:
        raise ValueError(f"{_JAAS}: username and password must be given")
    return DigestCredentials(user, password)


def _tls(properties: Properties) -> Any:
    """Returns the TLS context of connections to ZooKeeper."""

    def get(name: str) -> Any:
        return _value(properties, name)

    for key in ("zookeeper.ssl.crl.enable", "zookeeper.ssl.ocsp.enable"):
        if _value(properties, key):
            raise ValueError(f"{key}=true: {SERVER_CONFIGS[key].only_default}")
    algorithm = get("zookeeper.ssl.endpoint.identification.algorithm") or ""
    if algorithm.upper() not in ("HTTPS", ""):
        raise ValueError(
            f"zookeeper.ssl.endpoint.identification.algorithm={algorithm}: HTTPS or nothing is expected"
        )
    protocols = get("zookeeper.ssl.enabled.protocols") or _protocols(properties)
    if unknown := set(protocols) - {"TLSv1.2", "TLSv1.3"}:
        raise ValueError(
            f"zookeeper.ssl.enabled.protocols: {', '.join(sorted(unknown))} is not spoken; "
            "use TLSv1.2, TLSv1.3 or both"
        )
    settings = TlsSettings(
        keystore_type=_store_type(
            get("zookeeper.ssl.keystore.type"), get("zookeeper.ssl.keystore.location")
        ),
        keystore_location=get("zookeeper.ssl.keystore.location"),
        keystore_password=get("zookeeper.ssl.keystore.password"),
        key_password=get("zookeeper.ssl.keystore.password"),
        truststore_type=_store_type(
            get("zookeeper.ssl.truststore.type"), get("zookeeper.ssl.truststore.location")
        ),
        truststore_location=get("zookeeper.ssl.truststore.location"),
        truststore_password=get("zookeeper.ssl.truststore.password"),
        protocols=protocols,
        cipher_suites=get("zookeeper.ssl.cipher.suites") or (),
        check_hostname=bool(algorithm),
    )
    try:
        return client_context(settings)
    except TlsError as error:
        raise ValueError(f"zookeeper.{error.key}: {error.why}; {error.fix}") from error


def _protocols(properties: Properties) -> list[str]:
    """Returns the configured protocols, else all: ZooKeeper 3.9 accepts only TLSv1.3, earlier servers TLSv1.2."""
    name = "zookeeper.ssl.protocol"
    return [_value(properties, name)] if name in properties else ["TLSv1.2", "TLSv1.3"]


def _store_type(given: str | None, location: str | None) -> str:
    """Returns the store type as ZooKeeper's client does: without a configured type, by the file's extension."""
    if given:
        return given
    ending = location[location.rfind(".") :].lower() if location and "." in location else ""
    return _STORE_TYPES.get(ending, "JKS")


def _value(properties: Properties, name: str) -> Any:
    key = SERVER_CONFIGS[name]
    try:
        return key.parse(properties[name]) if name in properties else key.default
    except ConfigError as error:
        raise ValueError(str(error)) from error


ENABLE = "trimaran.zk.legacy.admin.enable"
KINDS = "trimaran.zk.legacy.admin.kinds"
SECRETS = "trimaran.zk.mirror.secrets.enable"


def obeyed_kinds(properties: Mapping[str, str], *, inside: bool = False) -> Collection[RequestKind]:
    """Returns the kinds of requests to obey, none without the option. `inside` means that the mirror runs in our
    controller, which can store credentials.

    ValueError names key and value.
    """
    try:
        values = {
            key: SERVER_CONFIGS[key].parse(properties[key])
            if key in properties
            else SERVER_CONFIGS[key].default
            for key in (ENABLE, KINDS, SECRETS)
        }
    except ConfigError as error:
        raise ValueError(str(error)) from error
    if not values[ENABLE]:
        return frozenset()
    kinds = frozenset(map(RequestKind, values[KINDS]))
    if RequestKind.SCRAM in kinds:
        _require_can_store(inside=inside, secrets=bool(values[SECRETS]))
    return kinds


def _require_can_store(*, inside: bool, secrets: bool) -> None:
    if not inside:
        raise ValueError(
            f"{KINDS}: scram is only obeyed by a mirror inside our controllers, with trimaran.zk.mirror.enable=true "
            "there: no request takes the keys that stand in ZooKeeper"
        )
    if not secrets:
        raise ValueError(
            f"{KINDS}: scram needs {SECRETS}=true, so that credentials are for the mirror's user only"
        )

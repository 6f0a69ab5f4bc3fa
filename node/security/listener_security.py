"""The security settings of listeners and clients from Kafka's keys: TLS contexts, and SASL
(`trimaran.node.security.sasl`).

Source: `ChannelBuilders`, `SslFactory` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, NoReturn

from trimaran.node.config.config_def import ConfigDef, ConfigError, ConfigKey
from trimaran.node.config.security_keys import CLIENT_SECURITY
from trimaran.node.config.server import ServerConfig, Setting
from trimaran.node.oauth.web import Web
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import Get, MechanismError
from trimaran.node.security.sasl import client_mechanism, own_mechanism, sasl_settings
from trimaran.wire.security.listener import PLAINTEXT, ClientSecurity, ListenerSecurity
from trimaran.wire.security.principal import PrincipalMapping
from trimaran.wire.security.tls.contexts import (
    TlsError,
    TlsSettings,
    client_context,
    server_context,
)
from trimaran.wire.security.tls.contexts import certificate_doubts as tls_certificate_doubts


class CertificateDoubt(NamedTuple):
    """A certificate that is expired, expires soon or is not valid yet, with the key of its store."""

    key: str
    origin: str
    text: str


_CLIENT_KEYS = ConfigDef(CLIENT_SECURITY)


def listener_security(
    config: ServerConfig, listener: str, logins: Logins | None = None
) -> ListenerSecurity:
    """Returns the security of the named listener. Reads certificates.

    Raises:
        ConfigError: a setting is invalid, or a file cannot be used.
    """
    protocol = config.protocol_of(listener)
    get = partial(config.of_listener, listener)
    tls = sasl = None
    if protocol in ("SSL", "SASL_SSL"):
        # With SASL, a certificate is requested only if the listener's own key requires it, as in Kafka.
        own = config.is_set_for_listener(listener, "ssl.client.auth")
        auth = get("ssl.client.auth") if own or protocol == "SSL" else "none"
        tls = _context(server_context, get, config, listener, client_auth=auth)
    if protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        sasl = sasl_settings(config, listener, logins or Logins(), _web(get))
    return ListenerSecurity(tls, sasl, PrincipalMapping(get("ssl.principal.mapping.rules")))


def certificate_doubts(config: ServerConfig, now: datetime) -> list[CertificateDoubt]:
    """Returns the certificates of the node's listeners and of its own clients that are expired, expire soon or are not
    valid yet, each once. Invalid settings are omitted, because `listener_security` reports them.
    """
    own = config.broker_listeners if config.is_broker else []
    own = [*own, *(config.controller_listeners if config.is_controller else [])]
    names = [endpoint.name for endpoint in own]
    names.append(config["controller.listener.names"][0])
    if config.is_broker:
        names.append(config.inter_broker_listener_name)
    found: dict[tuple[str, str], CertificateDoubt] = {}
    for name in dict.fromkeys(names):
        with suppress(ConfigError, TlsError):
            if config.protocol_of(name) not in ("SSL", "SASL_SSL"):
                continue
            settings = _tls_settings(partial(config.of_listener, name))
            for key, text in tls_certificate_doubts(settings, now):
                shown = _key_of_listener(config, name, key)
                found.setdefault(
                    (shown, text), CertificateDoubt(shown, config.origins.get(shown, ""), text)
                )
    return list(found.values())


def _key_of_listener(config: ServerConfig, listener: str, key: str) -> str:
    own = f"listener.name.{listener.lower()}.{key}"
    return own if own in config.origins else key


def inter_broker_security(config: ServerConfig) -> ClientSecurity:
    """Returns the security of connections to brokers; raises ConfigError."""
    return _own_client(
        config, config.inter_broker_listener_name, "sasl.mechanism.inter.broker.protocol"
    )


def controller_security(config: ServerConfig) -> ClientSecurity:
    """Returns the security of connections to controllers, from brokers and other controllers; raises ConfigError."""
    name = config["controller.listener.names"][0]
    return _own_client(config, name, "sasl.mechanism.controller.protocol")


def client_security(settings: Mapping[str, Setting]) -> ClientSecurity:
    """Returns the security of a command's client from Kafka's client keys, as in `--command-config`; other keys are
    ignored.

    Raises:
        ConfigError: a setting is invalid, or a file cannot be used.
    """
    values: dict[str, Any] = {}
    for name, setting in settings.items():
        if (key := _CLIENT_KEYS.get(name)) is not None:
            values[name] = key.parse(setting.value, origin=setting.origin)

    def get(key: str) -> Any:
        return values.get(key, _CLIENT_KEYS[key].default)

    def fail(key: str, why: str, fix: str) -> NoReturn:
        origin = settings[key].origin if key in settings else ""
        raise ConfigError(key, _shown(_CLIENT_KEYS.get(key), get(key)), why, origin=origin, fix=fix)

    protocol = get("security.protocol")
    tls = sasl = None
    try:
        if protocol in ("SSL", "SASL_SSL"):
            tls = client_context(_tls_settings(get))
    except TlsError as error:
        fail(error.key, error.why, error.fix)
    if protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        try:
            sasl = client_mechanism(get("sasl.mechanism"), get, web=_web(get))
        except MechanismError as error:
            fail(error.key, error.why, error.fix)
    return ClientSecurity(tls, sasl)


def is_client_key(name: str) -> bool:
    """Returns whether `client_security` uses the key."""
    return name in _CLIENT_KEYS


def _own_client(config: ServerConfig, listener: str, mechanism_key: str) -> ClientSecurity:
    protocol = config.protocol_of(listener)
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    get = partial(config.of_listener, listener)
    tls = sasl = None
    if protocol in ("SSL", "SASL_SSL"):
        tls = _context(client_context, get, config, listener)
    if protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        sasl = own_mechanism(config, listener, mechanism_key, _web(get))
    return ClientSecurity(tls, sasl)


def _context(
    make: Callable[[TlsSettings], Any],
    get: Get,
    config: ServerConfig,
    listener: str,
    *,
    client_auth: str = "none",
) -> Any:
    try:
        return make(_tls_settings(get, client_auth))
    except TlsError as error:
        key = _key_of_listener(config, listener, error.key)
        shown = _shown(None, get(error.key))
        origin = config.origins.get(key, "")
        raise ConfigError(key, shown, error.why, origin=origin, fix=error.fix) from error


def _tls_settings(get: Get, client_auth: Any = "none") -> TlsSettings:
    return TlsSettings(
        keystore_type=get("ssl.keystore.type"),
        keystore_location=get("ssl.keystore.location"),
        keystore_password=get("ssl.keystore.password"),
        keystore_key=get("ssl.keystore.key"),
        keystore_chain=get("ssl.keystore.certificate.chain"),
        key_password=get("ssl.key.password"),
        truststore_type=get("ssl.truststore.type"),
        truststore_location=get("ssl.truststore.location"),
        truststore_password=get("ssl.truststore.password"),
        truststore_certificates=get("ssl.truststore.certificates"),
        crl_location=get("trimaran.ssl.crl.location"),
        client_auth=client_auth,
        protocols=get("ssl.enabled.protocols"),
        cipher_suites=get("ssl.cipher.suites"),
        check_hostname=bool(get("ssl.endpoint.identification.algorithm")),
    )


def _web(get: Get) -> Web:
    """Returns the HTTP client for an identity provider; if a truststore is set, it also validates the provider."""
    if not get("ssl.truststore.location") and not get("ssl.truststore.certificates"):
        return Web()
    try:
        return Web(
            client_context(replace(_tls_settings(get), keystore_location=None, keystore_chain=None))
        )
    except TlsError as error:
        raise ConfigError(
            error.key, _shown(None, get(error.key)), error.why, fix=error.fix
        ) from error


def _shown(key: ConfigKey | None, value: Any) -> str:
    """Returns the text of a value for an error message."""
    if key is not None and key.sensitive:
        return "[hidden]"
    text = "" if value is None else str(value)
    return "[hidden]" if "-----BEGIN" in text else text

"""From Kafka's keys to what listeners and clients speak: contexts of TLS, users of SASL.

Source: `ChannelBuilders`, `SslFactory`, `JaasContext` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from node.config.config_def import ConfigDef, ConfigError, ConfigKey
from node.config.security_keys import CLIENT_SECURITY
from node.config.server import ServerConfig, Setting
from wire.security.jaas import PLAIN_MODULE, parse_jaas
from wire.security.listener import PLAINTEXT, ClientSecurity, ListenerSecurity
from wire.security.plain import MECHANISM, PlainCredentials, PlainExchange
from wire.security.sasl import SaslSettings
from wire.security.tls import TlsError, TlsSettings, client_context, server_context

_USER_PREFIX = "user_"
_CLIENT_KEYS = ConfigDef(CLIENT_SECURITY)
Get = Callable[[str], Any]


def listener_security(config: ServerConfig, listener: str) -> ListenerSecurity:
    """What the listener of that name asks of its peers. Reads certificates.

    Raises:
        ConfigError: a setting is wrong, or a file cannot be used.
    """
    protocol = config.protocol_of(listener)
    get = partial(config.of_listener, listener)
    tls = sasl = None
    if protocol in ("SSL", "SASL_SSL"):
        # With SASL a certificate is asked for only where the listener itself says so, as in Kafka.
        own = config.is_set_for_listener(listener, "ssl.client.auth")
        auth = get("ssl.client.auth") if own or protocol == "SSL" else "none"
        tls = _context(server_context, get, config, listener, client_auth=auth)
    if protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        sasl = _sasl(config, listener, get)
    return ListenerSecurity(tls, sasl)


def inter_broker_security(config: ServerConfig) -> ClientSecurity:
    """How brokers reach each other; raises ConfigError."""
    return _own_client(
        config, config.inter_broker_listener_name, "sasl.mechanism.inter.broker.protocol"
    )


def controller_security(config: ServerConfig) -> ClientSecurity:
    """How controllers are reached, by brokers and by each other; raises ConfigError."""
    name = config["controller.listener.names"][0]
    return _own_client(config, name, "sasl.mechanism.controller.protocol")


def client_security(settings: Mapping[str, Setting]) -> ClientSecurity:
    """Of a command's client: Kafka's client keys, as in `--command-config`; other keys are left alone.

    Raises:
        ConfigError: a setting is wrong, or a file cannot be used.
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
        if get("sasl.mechanism") != MECHANISM:
            fail("sasl.mechanism", "only PLAIN is implemented", "set sasl.mechanism=PLAIN")
        try:
            sasl = _credentials(get("sasl.jaas.config"))
        except ValueError as error:
            fail("sasl.jaas.config", str(error), _jaas_example("username=NAME password=PASSWORD"))
    return ClientSecurity(tls, sasl)


def _own_client(config: ServerConfig, listener: str, mechanism_key: str) -> ClientSecurity:
    protocol = config.protocol_of(listener)
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    get = partial(config.of_listener, listener)
    tls = sasl = None
    if protocol in ("SSL", "SASL_SSL"):
        tls = _context(client_context, get, config, listener)
    if protocol in ("SASL_SSL", "SASL_PLAINTEXT"):
        if config[mechanism_key] != MECHANISM:
            raise ConfigError(
                mechanism_key,
                config[mechanism_key],
                "only PLAIN is implemented",
                origin=config.origins.get(mechanism_key, ""),
                fix=f"set {mechanism_key}={MECHANISM}",
            )
        key = _jaas_key(listener)
        try:
            sasl = _credentials(get("plain.sasl.jaas.config"))
        except ValueError as error:
            raise _jaas_error(config, key, error, "username=NAME password=PASSWORD") from None
    return ClientSecurity(tls, sasl)


def _sasl(config: ServerConfig, listener: str, get: Get) -> SaslSettings:
    key = "sasl.enabled.mechanisms"
    if get(key) != [MECHANISM]:
        raise ConfigError(
            key,
            ",".join(get(key)),
            f"{listener} offers SASL, and only PLAIN is implemented",
            origin=config.origins.get(key, ""),
            fix=f"set {key}={MECHANISM}",
        )
    try:
        users = _users(get("plain.sasl.jaas.config"))
    except ValueError as error:
        raise _jaas_error(config, _jaas_key(listener), error, "user_NAME=PASSWORD") from None
    return SaslSettings(
        {MECHANISM: partial(PlainExchange, users)},
        token_bytes_max=get("sasl.server.max.receive.size"),
        failure_delay_seconds=config["connection.failed.authentication.delay.ms"] / 1000,
    )


def _jaas_key(listener: str) -> str:
    return f"listener.name.{listener.lower()}.plain.sasl.jaas.config"


def _jaas_example(options: str) -> str:
    return f"write {PLAIN_MODULE} required {options};"


def _jaas_error(config: ServerConfig, key: str, error: ValueError, options: str) -> ConfigError:
    origin = config.origins.get(key, "")
    return ConfigError(key, "[hidden]", str(error), origin=origin, fix=_jaas_example(options))


def _options(text: str | None) -> dict[str, str]:
    if not text:
        raise ValueError("is not set")
    module = parse_jaas(text)
    if module.name != PLAIN_MODULE:
        raise ValueError(f"the login module of PLAIN is {PLAIN_MODULE}")
    return module.options


def _users(text: str | None) -> dict[str, str]:
    return {
        name.removeprefix(_USER_PREFIX): password
        for name, password in _options(text).items()
        if name.startswith(_USER_PREFIX)
    }


def _credentials(text: str | None) -> PlainCredentials:
    options = _options(text)
    if not options.get("username") or not options.get("password"):
        raise ValueError("username and password must be given")
    return PlainCredentials(options["username"], options["password"])


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
        own = f"listener.name.{listener.lower()}.{error.key}"
        key = own if own in config.origins else error.key
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
        client_auth=client_auth,
        protocols=get("ssl.enabled.protocols"),
        cipher_suites=get("ssl.cipher.suites"),
        check_hostname=bool(get("ssl.endpoint.identification.algorithm")),
    )


def _shown(key: ConfigKey | None, value: Any) -> str:
    """What an error may show of a value."""
    if key is not None and key.sensitive:
        return "[hidden]"
    text = "" if value is None else str(value)
    return "[hidden]" if "-----BEGIN" in text else text

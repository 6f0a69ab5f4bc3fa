"""The mechanisms of a listener, and the credentials of our own clients, from Kafka's `sasl.…` keys.

Source: `SaslChannelBuilder` of Kafka.
"""

from __future__ import annotations

from functools import partial

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.node.config.server_keys import names_for_listener
from trimaran.node.oauth.web import Web
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import Get, MechanismError
from trimaran.node.security.mechanisms import MECHANISMS
from trimaran.wire.security.sasl.authenticator import SaslSettings
from trimaran.wire.security.sasl.exchange import ClientMechanism

ENABLED = "sasl.enabled.mechanisms"
_KNOWN = f"the mechanisms are {', '.join(MECHANISMS)}"


def sasl_settings(config: ServerConfig, listener: str, logins: Logins, web: Web) -> SaslSettings:
    """Returns the mechanisms of `sasl.enabled.mechanisms` with their limits; `web` connects to identity providers.

    Raises:
        ConfigError: a mechanism is unknown, or lacks a setting.
    """
    get = partial(config.of_listener, listener)
    names = get(ENABLED)
    if not names or not set(names) <= MECHANISMS.keys():
        raise ConfigError(
            ENABLED,
            ",".join(names),
            f"{listener} offers SASL, and {_KNOWN}",
            origin=config.origins.get(ENABLED, ""),
            fix=f"set {ENABLED} to some of them",
        )
    try:
        chosen = [MECHANISMS[name] for name in names]
        begin = {
            mechanism.name: mechanism.exchanges(mechanism, get, logins, web) for mechanism in chosen
        }
    except MechanismError as error:
        raise of_listener(config, listener, error) from None
    return SaslSettings(
        begin,
        token_bytes_max=get("sasl.server.max.receive.size"),
        failure_delay_seconds=config["connection.failed.authentication.delay.ms"] / 1000,
        session_ms_max={name: _session_ms_max(config, listener, name) for name in names},
        blocks=any(mechanism.blocks(get) for mechanism in chosen),
        has_tickets=any(mechanism.has_tickets for mechanism in chosen),
    )


def own_mechanism(config: ServerConfig, listener: str, key: str, web: Web) -> ClientMechanism:
    """Returns this node's credentials for a listener of other nodes; `key` names the mechanism.

    Raises:
        ConfigError: the mechanism is unknown, or lacks a setting.
    """
    name, get = config[key], partial(config.of_listener, listener)
    if name not in MECHANISMS:
        raise ConfigError(
            key,
            name,
            _KNOWN,
            origin=config.origins.get(key, ""),
            fix=f"set {key} to one of them",
        )
    try:
        return client_mechanism(name, get, MECHANISMS[name].jaas_key, web=web)
    except MechanismError as error:
        raise of_listener(config, listener, error) from None


def client_mechanism(
    name: str, get: Get, key: str = "sasl.jaas.config", *, web: Web
) -> ClientMechanism:
    """Returns the credentials of a client from the login module in `key`.

    Raises:
        MechanismError: the mechanism is unknown, or the module lacks an option.
    """
    if name not in MECHANISMS:
        raise MechanismError(
            "sasl.mechanism",
            _KNOWN,
            "set it to one of them",
        )
    mechanism = MECHANISMS[name]
    return mechanism.client(mechanism, get, key, web)


def of_listener(config: ServerConfig, listener: str, error: MechanismError) -> ConfigError:
    """Returns the error with the key that the node's file has or should have."""
    own = [f"listener.name.{listener.lower()}.{name}" for name in names_for_listener(error.key)]
    key = next((name for name in (*own, error.key) if name in config.origins), own[-1])
    origin = config.origins.get(key, "")
    return ConfigError(key, "[hidden]", error.why, origin=origin, fix=error.fix)


def _session_ms_max(config: ServerConfig, listener: str, mechanism: str) -> int:
    key = "connections.max.reauth.ms"
    own = f"{mechanism.lower()}.{key}"
    name = own if config.is_set_for_listener(listener, own) else key
    return int(config.of_listener(listener, name))

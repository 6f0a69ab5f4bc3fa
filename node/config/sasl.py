"""From Kafka's `sasl.…` keys to the mechanisms of a listener, and to what our own clients log in with.

Source: `SaslChannelBuilder`, `JaasContext`, `PlainLoginModule`, `ScramLoginModule` of Kafka. Classes are names to us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from node.config.config_def import ConfigError
from node.config.server import ServerConfig
from node.logins import Logins
from wire.security import plain, scram
from wire.security.exchange import ClientMechanism, Exchange
from wire.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from wire.security.plain import PlainCredentials, PlainExchange
from wire.security.sasl import SaslSettings
from wire.security.scram import TOKEN_EXTENSION, ScramExchange
from wire.security.scram_client import ScramCredentials

ENABLED = "sasl.enabled.mechanisms"
_USER_PREFIX = "user_"
# Mechanism → the login module that Kafka's users name.
MODULES = {plain.MECHANISM: PLAIN_MODULE, **dict.fromkeys(scram.MECHANISMS, SCRAM_MODULE)}
_NAME_AND_PASSWORD = 'username="NAME" password="PASSWORD"'

Get = Callable[[str], Any]
Options = Mapping[str, str]


class MechanismError(ValueError):
    """A key that makes no mechanism: which, why, and what to do. Its value is never shown."""

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(f"{key}: {why}; {fix}")
        self.key, self.why, self.fix = key, why, fix


def sasl_settings(config: ServerConfig, listener: str, logins: Logins) -> SaslSettings:
    """The mechanisms of `sasl.enabled.mechanisms`, and their bounds.

    Raises:
        ConfigError: one is not known, or lacks what it needs.
    """
    get = partial(config.of_listener, listener)
    names = get(ENABLED)
    if not names or not set(names) <= MODULES.keys():
        raise ConfigError(
            ENABLED,
            ",".join(names),
            f"{listener} offers SASL, and the mechanisms are {', '.join(MODULES)}",
            origin=config.origins.get(ENABLED, ""),
            fix=f"set {ENABLED} to some of them",
        )
    try:
        begin = {name: _beginning(name, get, logins) for name in names}
    except MechanismError as error:
        raise of_listener(config, listener, error) from None
    return SaslSettings(
        begin,
        token_bytes_max=get("sasl.server.max.receive.size"),
        failure_delay_seconds=config["connection.failed.authentication.delay.ms"] / 1000,
        session_ms_max={name: _session_ms_max(config, listener, name) for name in names},
    )


def own_mechanism(config: ServerConfig, listener: str, key: str) -> ClientMechanism:
    """What this node logs in with on a listener of other nodes; `key` says by which mechanism. Raises ConfigError."""
    name, get = config[key], partial(config.of_listener, listener)
    if name not in MODULES:
        raise ConfigError(
            key,
            name,
            f"the mechanisms are {', '.join(MODULES)}",
            origin=config.origins.get(key, ""),
            fix=f"set {key} to one of them",
        )
    try:
        return client_mechanism(name, get, jaas_key(name))
    except MechanismError as error:
        raise of_listener(config, listener, error) from None


def client_mechanism(name: str, get: Get, key: str = "sasl.jaas.config") -> ClientMechanism:
    """What a client logs in with, by the login module that `key` holds.

    Raises:
        MechanismError: the mechanism is not known, or the module lacks what it needs.
    """
    if name not in MODULES:
        raise MechanismError(
            "sasl.mechanism",
            f"{name} is not implemented",
            f"set it to one of {', '.join(MODULES)}",
        )
    options = _options(name, get(key), key, _NAME_AND_PASSWORD)
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise _lacks(name, key, "username and password must be given", _NAME_AND_PASSWORD)
    if name == plain.MECHANISM:
        return PlainCredentials(username, password)
    by_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
    return ScramCredentials(name, username, password, by_token)


def of_listener(config: ServerConfig, listener: str, error: MechanismError) -> ConfigError:
    """The error with the key as it stands, or should stand, in the node's file."""
    own = f"listener.name.{listener.lower()}.{error.key}"
    key = error.key if error.key in config.origins and own not in config.origins else own
    origin = config.origins.get(key, "")
    return ConfigError(key, "[hidden]", error.why, origin=origin, fix=error.fix)


def jaas_key(mechanism: str) -> str:
    """Behind `listener.name.LISTENER.`, as only listeners have it."""
    return f"{mechanism.lower()}.sasl.jaas.config"


def _beginning(name: str, get: Get, logins: Logins) -> Callable[[], Exchange]:
    key = jaas_key(name)
    if name == plain.MECHANISM:
        users = {
            option.removeprefix(_USER_PREFIX): password
            for option, password in _options(name, get(key), key, 'user_NAME="PASSWORD"').items()
            if option.startswith(_USER_PREFIX)
        }
        return partial(PlainExchange, users)
    if get(key):  # what this node logs in with elsewhere; wrong here, it would be wrong there
        _options(name, get(key), key, _NAME_AND_PASSWORD)
    return partial(ScramExchange, name, logins.find_account)


def _session_ms_max(config: ServerConfig, listener: str, mechanism: str) -> int:
    key = "connections.max.reauth.ms"
    own = f"{mechanism.lower()}.{key}"
    name = own if config.is_set_for_listener(listener, own) else key
    return int(config.of_listener(listener, name))


def _options(name: str, text: str | None, key: str, example: str) -> Options:
    """Of the one login module in `text`."""
    if not text:
        raise _lacks(name, key, "is not set", example)
    try:
        module = parse_jaas(text)
    except ValueError as error:
        raise _lacks(name, key, str(error), example) from None
    if module.name != MODULES[name]:
        raise _lacks(name, key, f"the login module of {name} is {MODULES[name]}", example)
    return module.options


def _lacks(name: str, key: str, why: str, example: str) -> MechanismError:
    return MechanismError(key, why, f"write {MODULES[name]} required {example};")

"""From Kafka's `sasl.…` keys to the mechanisms of a listener, and to what our own clients log in with.

Source: `SaslChannelBuilder`, `JaasContext`, `PlainLoginModule`, `ScramLoginModule` of Kafka. Classes are names to us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.node.oauth.keys import KeySetError, check_keys_url
from trimaran.node.oauth.login import (
    BearerCredentials,
    Retrieve,
    by_client_credentials,
    from_file,
    unsecured,
)
from trimaran.node.oauth.tokens import SignedTokens, TokenRules, UnsecuredTokens
from trimaran.node.oauth.web import Web, WebError, check_url
from trimaran.node.security.logins import Logins
from trimaran.wire.security import oauthbearer, plain, scram
from trimaran.wire.security.exchange import ClientMechanism, Exchange
from trimaran.wire.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from trimaran.wire.security.oauthbearer import OAuthBearerExchange, Validate
from trimaran.wire.security.plain import AskForPassword, PlainCredentials, PlainExchange
from trimaran.wire.security.sasl import SaslSettings
from trimaran.wire.security.scram import TOKEN_EXTENSION, ScramExchange
from trimaran.wire.security.scram_client import ScramCredentials

ENABLED = "sasl.enabled.mechanisms"
_USER_PREFIX = "user_"
# Mechanism → the login module that Kafka's users name.
MODULES = {
    plain.MECHANISM: PLAIN_MODULE,
    **dict.fromkeys(scram.MECHANISMS, SCRAM_MODULE),
    oauthbearer.MECHANISM: OAUTHBEARER_MODULE,
}
_KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"
_UNSECURED = "trimaran.oauthbearer.unsecured.allowed"
_CALLBACK = "trimaran.sasl.plain.callback"
# Of functions `(username, password) -> bool`, called in a thread.
CALLBACK_GROUP = "trimaran.sasl.plain"
_KERBEROS = "GSSAPI, which is Kerberos, is not implemented (docs/compatibility.md says why)"
_SUBJECT = "unsecuredLoginStringClaim_sub"
_NAME_AND_PASSWORD = 'username="NAME" password="PASSWORD"'

Get = Callable[[str], Any]
Options = Mapping[str, str]


class MechanismError(ValueError):
    """A key that makes no mechanism: which, why, and what to do. Its value is never shown."""

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(f"{key}: {why}; {fix}")
        self.key, self.why, self.fix = key, why, fix


def sasl_settings(config: ServerConfig, listener: str, logins: Logins, web: Web) -> SaslSettings:
    """The mechanisms of `sasl.enabled.mechanisms`, and their bounds; `web` reaches identity providers.

    Raises:
        ConfigError: one is not known, or lacks what it needs.
    """
    get = partial(config.of_listener, listener)
    names = get(ENABLED)
    if not names or not set(names) <= MODULES.keys():
        raise ConfigError(
            ENABLED,
            ",".join(names),
            f"{listener} offers SASL, and {_which(*names)}",
            origin=config.origins.get(ENABLED, ""),
            fix=f"set {ENABLED} to some of them",
        )
    try:
        begin = {name: _beginning(name, get, logins, web) for name in names}
    except MechanismError as error:
        raise of_listener(config, listener, error) from None
    return SaslSettings(
        begin,
        token_bytes_max=get("sasl.server.max.receive.size"),
        failure_delay_seconds=config["connection.failed.authentication.delay.ms"] / 1000,
        session_ms_max={name: _session_ms_max(config, listener, name) for name in names},
        blocks=plain.MECHANISM in names and bool(get(_CALLBACK)),
    )


def own_mechanism(config: ServerConfig, listener: str, key: str, web: Web) -> ClientMechanism:
    """What this node logs in with on a listener of other nodes; `key` says by which mechanism. Raises ConfigError."""
    name, get = config[key], partial(config.of_listener, listener)
    if name not in MODULES:
        raise ConfigError(
            key,
            name,
            _which(name),
            origin=config.origins.get(key, ""),
            fix=f"set {key} to one of them",
        )
    try:
        return client_mechanism(name, get, jaas_key(name), web=web)
    except MechanismError as error:
        raise of_listener(config, listener, error) from None


def client_mechanism(
    name: str, get: Get, key: str = "sasl.jaas.config", *, web: Web
) -> ClientMechanism:
    """What a client logs in with, by the login module that `key` holds.

    Raises:
        MechanismError: the mechanism is not known, or the module lacks what it needs.
    """
    if name not in MODULES:
        raise MechanismError(
            "sasl.mechanism",
            _which(name),
            "set it to one of them",
        )
    if name == oauthbearer.MECHANISM:
        options = _options(name, get(key), key, "") if get(key) else {}
        return BearerCredentials(_retrieve(get, options, web))
    options = _options(name, get(key), key, _NAME_AND_PASSWORD)
    username, password = options.get("username"), options.get("password")
    if not username or not password:
        raise _lacks(name, key, "username and password must be given", _NAME_AND_PASSWORD)
    if name == plain.MECHANISM:
        return PlainCredentials(username, password)
    by_token = options.get(TOKEN_EXTENSION, "").lower() == "true"
    return ScramCredentials(name, username, password, by_token)


def _which(*names: str) -> str:
    """What to say of names among which is one that is not known."""
    known = f"the mechanisms are {', '.join(MODULES)}"
    return f"{_KERBEROS}; {known}" if "GSSAPI" in names else known


def of_listener(config: ServerConfig, listener: str, error: MechanismError) -> ConfigError:
    """The error with the key as it stands, or should stand, in the node's file."""
    own = f"listener.name.{listener.lower()}.{error.key}"
    key = error.key if error.key in config.origins and own not in config.origins else own
    origin = config.origins.get(key, "")
    return ConfigError(key, "[hidden]", error.why, origin=origin, fix=error.fix)


def jaas_key(mechanism: str) -> str:
    """Behind `listener.name.LISTENER.`, as only listeners have it."""
    return f"{mechanism.lower()}.sasl.jaas.config"


def _retrieve(get: Get, options: Options, web: Web) -> Retrieve:
    """Where tokens come from. Raises MechanismError."""
    url = get(_TOKEN_URL)
    if not url:
        if subject := options.get(_SUBJECT):
            return unsecured(subject)
        raise MechanismError(
            _TOKEN_URL, "is not set", "set it to where the identity provider gives tokens"
        )
    if url.startswith("file:"):
        return from_file(Path(unquote(urlsplit(url).path)))
    try:
        check_url(url)
    except WebError as error:
        raise MechanismError(_TOKEN_URL, str(error), "correct the URL") from None
    client_id = get(_CLIENT_ID) or options.get("clientId")
    secret = get(_CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not secret:
        raise MechanismError(
            _CLIENT_ID,
            "client id and secret are needed",
            f"set {_CLIENT_ID} and {_CLIENT_SECRET}",
        )
    scope = get("sasl.oauthbearer.scope") or options.get("scope")
    return by_client_credentials(web, url, client_id, secret, scope)


def _validation(get: Get, logins: Logins, web: Web) -> Validate:
    """What tokens are checked by: nobody starts without keys, unless told that nothing is checked."""
    rules = TokenRules(
        issuer=get("sasl.oauthbearer.expected.issuer"),
        audience=tuple(get("sasl.oauthbearer.expected.audience")),
        skew_seconds=get("sasl.oauthbearer.clock.skew.seconds"),
        subject_claim=get("sasl.oauthbearer.sub.claim.name"),
    )
    url = get(_KEYS_URL)
    if bool(url) == get(_UNSECURED):
        why = "contradicts " + _UNSECURED if url else "is not set, and tokens are checked by keys"
        raise MechanismError(_KEYS_URL, why, "set it to where the identity provider tells its keys")
    if not url:
        return UnsecuredTokens(rules).validate
    try:
        import jwt  # noqa: F401, PLC0415 - an extra

        check_keys_url(url)
    except ImportError:
        raise MechanismError(
            _KEYS_URL, "checking tokens needs the package PyJWT", "pip install 'trimaran[oauth]'"
        ) from None
    except KeySetError as error:
        raise MechanismError(_KEYS_URL, str(error), "correct the URL") from None
    refresh = get("sasl.oauthbearer.jwks.endpoint.refresh.ms") / 1000
    return SignedTokens(logins.key_set(url, web, refresh), rules).validate


def _beginning(name: str, get: Get, logins: Logins, web: Web) -> Callable[[], Exchange]:
    if name == oauthbearer.MECHANISM:
        return partial(OAuthBearerExchange, _validation(get, logins, web))
    key = jaas_key(name)
    if name == plain.MECHANISM:
        return _beginning_of_plain(get, key)
    if get(key):  # what this node logs in with elsewhere; wrong here, it would be wrong there
        _options(name, get(key), key, _NAME_AND_PASSWORD)
    return partial(ScramExchange, name, logins.find_account)


def _beginning_of_plain(get: Get, key: str) -> Callable[[], Exchange]:
    ask = _plain_callback(get(_CALLBACK))
    options: Options = {}
    if get(key) or ask is None:
        options = _options(plain.MECHANISM, get(key), key, 'user_NAME="PASSWORD"')
    users = {
        option.removeprefix(_USER_PREFIX): password
        for option, password in options.items()
        if option.startswith(_USER_PREFIX)
    }
    return partial(PlainExchange, users, ask)


def _plain_callback(name: str | None) -> AskForPassword | None:
    """A function of somebody's package, by its entry point. Raises MechanismError."""
    if not name:
        return None
    found = [one for one in entry_points(group=CALLBACK_GROUP) if one.name == name]
    try:
        (one,) = found
        callback: AskForPassword = one.load()
    except (ValueError, ImportError, AttributeError) as error:
        why = f"there is no usable entry point {name} in the group {CALLBACK_GROUP}"
        fix = "install the package that has it, or correct the name"
        raise MechanismError(_CALLBACK, f"{why} ({error})" if found else why, fix) from None
    if not callable(callback):
        raise MechanismError(_CALLBACK, f"{name} is not a function", "name another entry point")
    return callback


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

"""PLAIN settings from keys: users in the login module of a listener, or a function that checks passwords.

Source: `PlainLoginModule` of Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points

from trimaran.node.oauth.web import Web
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import Get, Mechanism, MechanismError, Options
from trimaran.wire.security.sasl import plain
from trimaran.wire.security.sasl.exchange import ClientMechanism, Exchange
from trimaran.wire.security.sasl.plain import AskForPassword, PlainCredentials, PlainExchange

_USER_PREFIX = "user_"
_CALLBACK = "trimaran.sasl.plain.callback"
# The entry points of functions `(username, password) -> bool`, called in a thread.
CALLBACK_GROUP = "trimaran.sasl.plain"

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def _exchanges(
    mechanism: Mechanism, get: Get, _logins: Logins, _web: Web
) -> Callable[[], Exchange]:
    key = mechanism.jaas_key
    ask = _plain_callback(get(_CALLBACK))
    options: Options = {}
    if get(key) or ask is None:
        options = mechanism.options(get(key), key, 'user_NAME="PASSWORD"')
    users = {
        option.removeprefix(_USER_PREFIX): password
        for option, password in options.items()
        if option.startswith(_USER_PREFIX)
    }
    return partial(PlainExchange, users, ask)


def _client(mechanism: Mechanism, get: Get, key: str, _web: Web) -> ClientMechanism:
    username, password, _ = mechanism.name_and_password(get(key), key)
    return PlainCredentials(username, password)


def _blocks(get: Get) -> bool:
    return bool(get(_CALLBACK))


def _plain_callback(name: str | None) -> AskForPassword | None:
    """Returns the function of an installed package, by its entry point. Raises MechanismError."""
    if not name:
        return None
    found = [point for point in entry_points(group=CALLBACK_GROUP) if point.name == name]
    try:
        (point,) = found
        callback: AskForPassword = point.load()
    except (ValueError, ImportError, AttributeError) as error:
        why = f"there is no usable entry point {name} in the group {CALLBACK_GROUP}"
        fix = "install the package that has it, or correct the name"
        raise MechanismError(_CALLBACK, f"{why} ({error})" if found else why, fix) from None
    if not callable(callback):
        raise MechanismError(_CALLBACK, f"{name} is not a function", "name another entry point")
    return callback


PLAIN = Mechanism(
    plain.MECHANISM,
    PLAIN_MODULE,
    _exchanges,
    _client,
    _blocks,
)

"""A SASL mechanism for listeners and clients, and code that mechanisms share.

Source: `JaasContext` and the login modules of Kafka. Java classes are only names here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trimaran.node.oauth.web import Web
from trimaran.node.security.logins import Logins
from trimaran.wire.security.sasl.exchange import ClientMechanism, Exchange
from trimaran.wire.security.sasl.jaas import parse_jaas

NAME_AND_PASSWORD = 'username="NAME" password="PASSWORD"'

Get = Callable[[str], Any]
Options = Mapping[str, str]


def _never(_get: Get) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One row of `trimaran.node.security.mechanisms`.

    Attributes:
        login_module: the class name in `sasl.jaas.config`, as in Kafka.
        exchanges: returns the exchanges of a listener from its keys; raises MechanismError.
        client: returns the credentials of a client from the login module in the named key; raises MechanismError.
        blocks: returns whether an exchange of a listener with these keys blocks, so that it needs a thread.
        has_tickets: whether a token of a client may be as large as a Kerberos ticket.
    """

    name: str
    login_module: str
    exchanges: Callable[[Mechanism, Get, Logins, Web], Callable[[], Exchange]]
    client: Callable[[Mechanism, Get, str, Web], ClientMechanism]
    blocks: Callable[[Get], bool] = _never
    has_tickets: bool = False

    @property
    def jaas_key(self) -> str:
        """Returns the key of the login module after `listener.name.LISTENER.`, which only listeners have."""
        return f"{self.name.lower()}.sasl.jaas.config"

    def options(self, text: str | None, key: str, example: str) -> Options:
        """Returns the options of the single login module in `text`, the value of `key`. Raises MechanismError."""
        if not text:
            raise self.lacks(key, "is not set", example)
        try:
            module = parse_jaas(text)
        except ValueError as error:
            raise self.lacks(key, str(error), example) from None
        if module.name != self.login_module:
            why = f"the login module of {self.name} is {self.login_module}"
            raise self.lacks(key, why, example)
        return module.options

    def name_and_password(self, text: str | None, key: str) -> tuple[str, str, Options]:
        """Returns user name, password and all options of the login module in `text`. Raises MechanismError."""
        options = self.options(text, key, NAME_AND_PASSWORD)
        username, password = options.get("username"), options.get("password")
        if not username or not password:
            raise self.lacks(key, "username and password must be given", NAME_AND_PASSWORD)
        return username, password, options

    def lacks(self, key: str, why: str, example: str) -> MechanismError:
        return MechanismError(key, why, f"write {self.login_module} required {example};")


class MechanismError(ValueError):
    """A key from which no mechanism can be created: the key, the cause and the fix. The value is never shown."""

    def __init__(self, key: str, why: str, fix: str) -> None:
        super().__init__(f"{key}: {why}; {fix}")
        self.key, self.why, self.fix = key, why, fix

"""Security contexts of the Kerberos library, by the package `gssapi` of the extra `kerberos`.

Each function and method here may wait: for files, and on the client's side for the key distribution center (KDC). Only
Kerberos is negotiated, never SPNEGO. Source: RFC 2743, RFC 4121; python-gssapi, MIT Kerberos.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.wire.later import imported_later
from trimaran.wire.security.sasl.exchange import Tokens
from trimaran.wire.security.sasl.gssapi import MECHANISM, ContextFailed, client_tokens

if TYPE_CHECKING:
    from gssapi import raw
else:
    raw = imported_later("gssapi.raw")

PACKAGE = "gssapi"
_KERBEROS = "1.2.840.113554.1.2.2"


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """Raises ContextFailed for an error of the library in the block."""
    try:
        yield
    except raw.GSSError as error:
        # The minor code is that of Kerberos; if it has none, the major code is the whole cause.
        code = error.min_code or error.maj_code
        causes = error.get_all_statuses(code, code != error.min_code)
        raise ContextFailed(f"{what}: {'; '.join(causes)}") from error
    except UnicodeDecodeError as error:
        raise ContextFailed(f"{what}: {error}") from error


class _Context:
    """The common part of both sides: the context of the library, once there is one."""

    def __init__(self) -> None:
        self.is_established = False
        self._context: Any = None
        self._peer: Any = None

    @property
    def peer(self) -> str:
        with _failing("the name of the peer cannot be read"):
            return str(raw.display_name(self._peer, name_type=False).name.decode())

    def wrap(self, message: bytes) -> bytes:
        with _failing("a message cannot be wrapped"):
            return bytes(raw.wrap(self._context, message, confidential=False).message)

    def unwrap(self, token: bytes) -> bytes:
        with _failing("a message is not of this context"):
            return bytes(raw.unwrap(self._context, token).message)


class AcceptingContext(_Context):
    """The server's side. It needs no KDC."""

    def __init__(self, credentials: Any) -> None:
        super().__init__()
        self._credentials = credentials

    def step(self, token: bytes) -> bytes:
        """Takes the client's token, and returns the node's next one, which may be empty. Raises ContextFailed."""
        with _failing("the client's token is refused"):
            found = raw.accept_sec_context(token, self._credentials, self._context)
        self._context, self._peer = found.context, found.initiator_name
        self.is_established = not found.more_steps
        return found.token or b""


class InitiatingContext(_Context):
    """The client's side: the node must prove its identity, too (mutual authentication)."""

    def __init__(self, credentials: Any, service: str, host: str) -> None:
        super().__init__()
        self._credentials = credentials
        self._name = f"{service}@{host}"
        with _failing(f"{self._name} is no name of a service"):
            self._peer = raw.import_name(self._name.encode(), raw.NameType.hostbased_service)

    def step(self, token: bytes) -> bytes:
        """Takes the node's token, empty for the first step, and returns the client's next one, which may be empty.

        Raises:
            ContextFailed: the login is refused, or the node does not prove its identity.
        """
        flags = [raw.RequirementFlag.mutual_authentication, raw.RequirementFlag.integrity]
        with _failing(f"Kerberos refuses a login to {self._name}"):
            found = raw.init_sec_context(
                self._peer,
                self._credentials,
                self._context,
                _mechanism(),
                flags,
                input_token=token or None,
            )
        self._context = found.context
        self.is_established = not found.more_steps
        is_mutual = found.flags & raw.RequirementFlag.mutual_authentication
        if self.is_established and not is_mutual:
            raise ContextFailed("there is no mutual authentication")
        return found.token or b""


def acceptor(principal: str, keytab: str | None) -> Callable[[], AcceptingContext]:
    """Returns a function that makes contexts with the key of the principal in the keytab, by default that of the
    machine. A later context uses the keys that the file has then.

    Raises:
        ContextFailed: there is no key.
    """
    with _failing(f"the keytab has no usable key of {principal}"):
        credentials = _acquired(principal, "accept", {} if keytab is None else {"keytab": keytab})
    return partial(AcceptingContext, credentials)


def default_realm() -> str:
    """Returns the realm of `krb5.conf`; empty if there is none."""
    try:
        name = raw.canonicalize_name(raw.import_name(b"x", raw.NameType.user), _mechanism())
        return str(raw.display_name(name, name_type=False).name.decode().partition("@")[2])
    except raw.GSSError:
        return ""


@dataclass(frozen=True, slots=True)
class KerberosCredentials:
    """The credentials of a client for any number of connections to nodes of the service.

    With a keytab, the tickets of the principal are kept in memory. The library gets a new one after half of a ticket's
    lifetime. Without a keytab, the tickets come from a credential cache: `cache`, or the library's default. Another
    program, such as `kinit`, renews them, and the principal may be None.
    """

    service: str
    principal: str | None
    keytab: str | None = None
    cache: str | None = None
    _own_cache: str = field(
        default_factory=lambda: f"MEMORY:trimaran-{secrets.token_hex(8)}", compare=False, repr=False
    )

    mechanism = MECHANISM
    blocks = True

    def exchange(self, host: str, /) -> Tokens:
        """Returns the exchange of a login; waits for the KDC. Raises AuthenticationRefused."""
        try:
            with _failing("there is no valid ticket"):
                credentials = _acquired(self.principal, "initiate", self._store())
            context = InitiatingContext(credentials, self.service, host)
            return client_tokens(context, context.step(b""))
        except ContextFailed as error:
            raise AuthenticationRefused(str(error)) from error

    def _store(self) -> Mapping[str, str]:
        if self.keytab is not None:
            return {"client_keytab": self.keytab, "ccache": self._own_cache}
        return {} if self.cache is None else {"ccache": self.cache}


def _mechanism() -> Any:
    return raw.OID.from_int_seq(_KERBEROS)


def _acquired(principal: str | None, usage: str, store: Mapping[str, str]) -> Any:
    """Returns credentials of the library. Raises `GSSError`."""
    name = None
    if principal is not None:
        name = raw.import_name(principal.encode(), raw.NameType.kerberos_principal)
    options: dict[str, Any] = {"name": name, "mechs": [_mechanism()], "usage": usage}
    if not store:
        return raw.acquire_cred(**options).creds
    encoded: dict[bytes | str, bytes | str] = {
        key.encode(): value.encode() for key, value in store.items()
    }
    return raw.acquire_cred_from(encoded, **options).creds

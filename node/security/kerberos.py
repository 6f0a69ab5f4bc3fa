"""GSSAPI settings from keys: the principal of a node and its keytab, the tickets of a client, the names of principals.

Source: `KerberosLogin`, `JaasUtils` of Kafka; `Krb5LoginModule` of OpenJDK.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from trimaran.node.oauth.web import Web
from trimaran.node.security.kerberos_contexts import (
    PACKAGE,
    KerberosCredentials,
    acceptor,
    default_realm,
)
from trimaran.node.security.logins import Logins
from trimaran.node.security.mechanism import Get, Mechanism, MechanismError, Options
from trimaran.wire.security.kerberos_names import LocalNames
from trimaran.wire.security.sasl import gssapi
from trimaran.wire.security.sasl.exchange import ClientMechanism, Exchange
from trimaran.wire.security.sasl.gssapi import ContextFailed, GssapiExchange
from trimaran.wire.security.small_files import read_small_file

SERVICE_NAME = "sasl.kerberos.service.name"
LOCAL_RULES = "sasl.kerberos.principal.to.local.rules"
KERBEROS_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
_BY_KEYTAB = 'useKeyTab=true storeKey=true keyTab="FILE" principal="NAME/HOST@REALM"'
_BY_TICKET = 'useKeyTab=true keyTab="FILE" principal="NAME@REALM", or useTicketCache=true'


def _exchanges(
    mechanism: Mechanism, get: Get, _logins: Logins, _web: Web
) -> Callable[[], Exchange]:
    key = mechanism.jaas_key
    options = _options(mechanism, get, key, _BY_KEYTAB)
    principal = options.get("principal")
    if not _is_true(options, "useKeyTab") or not principal:
        raise mechanism.lacks(key, "a node needs its principal and a keytab", _BY_KEYTAB)
    _service_name(get, options)
    begin = _acceptor(key, principal, options.get("keyTab"))
    return partial(_exchange, begin, LocalNames(get(LOCAL_RULES), default_realm()))


def _exchange(begin: Callable[[], gssapi.SecurityContext], names: LocalNames) -> Exchange:
    return GssapiExchange(begin(), names)


def _options(mechanism: Mechanism, get: Get, key: str, example: str) -> Options:
    """Returns the options of the login module. Raises MechanismError."""
    if not get(key):
        why = "is not set, and GSSAPI, the default mechanism, needs it"
        raise mechanism.lacks(key, why, example)
    return mechanism.options(get(key), key, example)


def _acceptor(key: str, principal: str, keytab: str | None) -> Callable[[], gssapi.SecurityContext]:
    """Returns a function that makes contexts with a key of the keytab. Raises MechanismError."""
    _require_package(key)
    if keytab is not None:
        _require_file(key, keytab)
    try:
        return acceptor(principal, keytab)
    except ContextFailed as error:
        fix = "correct principal and keyTab, or add the key (kadmin: ktadd -k FILE PRINCIPAL)"
        raise MechanismError(key, str(error), fix) from error


def _client(mechanism: Mechanism, get: Get, key: str, _web: Web) -> ClientMechanism:
    options = _options(mechanism, get, key, _BY_TICKET)
    principal, keytab = options.get("principal"), options.get("keyTab")
    if _is_true(options, "useKeyTab"):
        if not principal or not keytab:
            raise mechanism.lacks(key, "keyTab and principal must be given", _BY_TICKET)
        found = KerberosCredentials(_service_name(get, options), principal, keytab)
        _acceptor(key, principal, keytab)  # a missing key is noticed here, not at the first login
    elif _is_true(options, "useTicketCache"):
        cache = options.get("ticketCache")
        found = KerberosCredentials(_service_name(get, options), principal, cache=cache)
    else:
        raise mechanism.lacks(key, "there is no keytab and no ticket cache", _BY_TICKET)
    _require_package(key)
    return found


def _require_file(key: str, keytab: str) -> None:
    """Raises MechanismError unless the keytab is a regular file: the library would wait for the writer of a FIFO."""
    try:
        read_small_file(keytab)
    except OSError as error:
        why = f"{keytab} cannot be read: {error.strerror}"
        raise MechanismError(key, why, "correct keyTab, or the owner of the file") from error


def _is_true(options: Options, name: str) -> bool:
    return options.get(name, "").lower() == "true"


def _service_name(get: Get, options: Options) -> str:
    """Returns the name of the service of all nodes. Raises MechanismError, as Kafka does."""
    own, of_nodes = options.get("serviceName"), get(SERVICE_NAME)
    if own and of_nodes and own != of_nodes:
        why = "is not the serviceName of the login module"
        raise MechanismError(SERVICE_NAME, why, "leave one of them out")
    name = own or of_nodes
    if not name:
        fix = "set it to the first part of the principal of the nodes, such as kafka"
        raise MechanismError(SERVICE_NAME, "is not set", fix)
    return str(name)


def _require_package(key: str) -> None:
    if find_spec(PACKAGE) is None:
        raise MechanismError(
            key,
            f"GSSAPI needs the package {PACKAGE}, which is not installed",
            "install a C compiler and libkrb5-dev, then pip install 'trimaran[kerberos]'",
        )


def _blocks(_get: Get) -> bool:
    return True


GSSAPI = Mechanism(
    gssapi.MECHANISM,
    KERBEROS_MODULE,
    _exchanges,
    _client,
    _blocks,
    has_tickets=True,
)

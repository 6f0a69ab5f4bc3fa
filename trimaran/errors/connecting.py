"""User-facing errors for failed connections to a cluster: the server that listens at the address instead, and the
setting to change.

The cause is found by probes: a listener that closes the connection is probed for TLS and for ZooKeeper.
"""

from __future__ import annotations

import socket
from contextlib import closing
from typing import TYPE_CHECKING

from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.blocking import BlockingConnection
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.later import imported_later
from trimaran.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    import ssl

    from trimaran.wire.security.listener import ClientSecurity
else:
    ssl = imported_later("ssl")

PROBE_SECONDS = 1.0  # each probe runs once, after a failure
COMMAND_CONFIG_OPTION = "--command-config"
# The command that ZooKeeper always allows.
ZOOKEEPER_WORD, ZOOKEEPER_SAYS = b"srvr", b"Zookeeper version"


def no_conversation(
    address: Address, error: ConnectionLost, security: ClientSecurity | None
) -> UserError:
    """Returns the error for a first connection to `address` that failed permanently, before any request."""
    where = str(address)
    if isinstance(error, AuthenticationRefused):
        return not_authenticated(where, error)
    if isinstance(error, ConnectRefused):
        return nothing_listens(where, error)
    if isinstance(error.__cause__, socket.gaierror):
        return UserError(
            f"the host name {address[0]} is not known",
            error.__cause__.strerror or str(error),
            "check the spelling of the address",
            exit_code=Exit.CANNOT_CONNECT,
        )
    if not isinstance(error.__cause__, OSError) or _is_reachable(address):
        return _not_kafka(address, error, security)
    return UserError(
        f"cannot connect to {where}",
        str(error),
        "check the address, firewalls and the network in between",
        exit_code=Exit.CANNOT_CONNECT,
    )


def _not_kafka(
    address: Address, error: ConnectionLost, security: ClientSecurity | None
) -> UserError:
    where = str(address)
    if security is not None and security.tls is not None:
        if _speaks_plain_kafka(address):
            return _plain_listener(where, error)
        return UserError(
            f"{where} closed the TLS connection",
            str(error),
            f"it may require a client certificate: ssl.keystore.location in the file of {COMMAND_CONFIG_OPTION}",
            exit_code=Exit.REFUSED,
        )
    if _speaks_tls(address):
        return UserError(
            f"{where} speaks TLS, and this command does not",
            str(error),
            f"use {COMMAND_CONFIG_OPTION} FILE with security.protocol=SSL (or SASL_SSL) and a truststore",
            exit_code=Exit.CANNOT_CONNECT,
        )
    if ZOOKEEPER_SAYS in _answer(address, ZOOKEEPER_WORD):
        return UserError(
            f"{where} is a ZooKeeper, not a Kafka node",
            "it answers ZooKeeper's srvr command",
            "name a broker with -b or a controller with -B; the commands of trimaran zk take this one with -z",
            exit_code=Exit.USAGE,
        )
    return UserError(
        f"{where} does not speak Kafka's protocol",
        str(error),
        "check that this is the port of a broker or controller",
        exit_code=Exit.CANNOT_CONNECT,
    )


def wants_login(address: Address, mechanisms: list[str]) -> UserError:
    """Returns the error of a listener that requires a login, for a client without one."""
    return UserError(
        f"{address} requires a login",
        f"it is a SASL listener that accepts {', '.join(mechanisms)}",
        f"use {COMMAND_CONFIG_OPTION} FILE with security.protocol=SASL_…, sasl.mechanism and sasl.jaas.config",
        exit_code=Exit.REFUSED,
    )


def not_authenticated(where: str, error: AuthenticationRefused) -> UserError:
    """Returns the error for a refusal by TLS or SASL."""
    text = str(error)
    if not text.startswith("TLS"):
        return UserError(
            f"authentication failed at {where}",
            text,
            "correct sasl.mechanism and user, password, keytab or sasl.oauthbearer.… in the file of "
            f"{COMMAND_CONFIG_OPTION}",
            exit_code=Exit.REFUSED,
        )
    if "CERTIFICATE_REQUIRED" in text.upper().replace(" ", "_"):
        return UserError(
            f"{where} requires a client certificate",
            text,
            f"set ssl.keystore.location in the file of {COMMAND_CONFIG_OPTION}",
            exit_code=Exit.REFUSED,
        )
    if "CERTIFICATE_VERIFY_FAILED" not in text:
        address = where.rpartition(":")
        if _speaks_plain_kafka(Address(address[0], int(address[2]))):
            return _plain_listener(where, error)
    return UserError(
        f"TLS verification failed at {where}",
        text,
        f"correct truststore, keystore and host name in the file of {COMMAND_CONFIG_OPTION}",
        exit_code=Exit.REFUSED,
    )


def _plain_listener(where: str, error: Exception) -> UserError:
    return UserError(
        f"{where} does not speak TLS, and this command does",
        str(error),
        f"name the port of a TLS listener, or leave security.protocol out of the file of {COMMAND_CONFIG_OPTION}",
        exit_code=Exit.CANNOT_CONNECT,
    )


def nothing_listens(where: str, error: Exception) -> UserError:
    return UserError(
        f"nothing listens at {where}",
        str(error),
        "check the address, and that the node is running: trimaran ps shows a local cluster",
        exit_code=Exit.CANNOT_CONNECT,
    )


def timed_out(
    addresses: list[Address],
    error: Exception,
    security: ClientSecurity | None,
    *,
    of_controllers: bool,
) -> UserError:
    """Returns the error for a request without a response, after the cluster had responded before."""
    gone = [str(address) for address in addresses if not _speaks_kafka(address, security)]
    listed = ",".join(map(str, addresses))
    if len(gone) == len(addresses):
        if isinstance(error.__cause__, ConnectRefused):
            return nothing_listens(listed, error.__cause__)
        return UserError(
            f"no answer from {listed}",
            str(error),
            "it accepts connections but does not answer: it may be frozen or overloaded; see its log",
            exit_code=Exit.TIMEOUT,
        )
    if of_controllers:
        return no_quorum(gone, len(addresses))
    return UserError(
        f"{listed} did not complete the request in time",
        str(error),
        "brokers need a majority of the controllers, and a leader of the partition: trimaran quorum status; trimaran "
        "partitions list --offline",
        exit_code=Exit.TIMEOUT,
    )


def no_quorum(unreachable: list[str], count: int, exit_code: Exit = Exit.TIMEOUT) -> UserError:
    """Returns the error for controllers that respond, but have no leader."""
    if not unreachable:
        return UserError(
            "no quorum: the controllers have no leader",
            "all of them answer, but none has been elected",
            "wait a second or two for the election; then see the logs of the controllers",
            exit_code=exit_code,
        )
    return UserError(
        f"no quorum: {len(unreachable)} of {count} controllers unreachable ({', '.join(unreachable)})",
        "a leader needs a majority of the voters",
        "start them; in a local cluster trimaran ps shows them, and trimaran chaos restart NODE starts one",
        exit_code=exit_code,
    )


# --- probes


def _is_reachable(address: Address) -> bool:
    try:
        with socket.create_connection(address, PROBE_SECONDS):
            return True
    except OSError:
        return False


def _answer(address: Address, question: bytes) -> bytes:
    """Returns the first response; nothing if the peer is silent or closes the connection."""
    try:
        with socket.create_connection(address, PROBE_SECONDS) as connection:
            connection.sendall(question)
            return connection.recv(4096)
    except OSError:
        return b""


def _speaks_tls(address: Address) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection(address, PROBE_SECONDS) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # the server refuses us with a TLS alert
    except OSError:
        return False
    return True


def _speaks_plain_kafka(address: Address) -> bool:
    return _speaks_kafka(address, None)


def mechanisms_wanted(address: Address, security: ClientSecurity | None) -> list[str]:
    """Returns the mechanisms of a SASL listener; none for another listener."""
    try:
        with closing(
            BlockingConnection(address, timeout=PROBE_SECONDS, security=security)
        ) as connection:
            answer = connection.call(SaslHandshakeRequest(mechanism="?"), timeout=PROBE_SECONDS)
    except (ConnectionLost, RequestTimedOut, VersionMismatch):
        return []
    unknown = answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return list(answer.mechanisms) if unknown else []


def _speaks_kafka(address: Address, security: ClientSecurity | None) -> bool:
    try:
        BlockingConnection(address, timeout=PROBE_SECONDS, security=security).close()
    except (ConnectionLost, RequestTimedOut, VersionMismatch):
        return False
    return True

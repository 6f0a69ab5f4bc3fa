"""Finds out why there is no ZooKeeper at an address, by probes before waiting for a session."""

from __future__ import annotations

import socket

from trimaran.errors.connecting import PROBE_SECONDS, nothing_listens
from trimaran.errors.user_error import Exit, UserError
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.identity import Address

DEFAULT_PORT = "2181"
# The command is allowed by default; a ZooKeeper that forbids it says so.
_WORD, _ANSWERS = b"srvr", (b"Zookeeper version", b"srvr is not executed")


def why_no_zookeeper(connect: str) -> UserError | None:
    """Returns the problem if no address in `connect`, such as `h1:2181,h2:2181/chroot`, can be that of a ZooKeeper.

    A silent address may be a slow ZooKeeper. Raises ValueError for invalid addresses.
    """
    first = None
    for address in _addresses(connect):
        failure = _failure(address)
        if failure is None:
            return None
        first = first or failure
    return first


def _addresses(connect: str) -> list[Address]:
    parts = [part.strip() for part in connect.partition("/")[0].split(",")]
    with_port = [p if ":" in p.rpartition("]")[2] else f"{p}:{DEFAULT_PORT}" for p in parts if p]
    return parse_bootstrap(",".join(with_port))


def _failure(address: Address) -> UserError | None:
    where = str(address)
    try:
        with socket.create_connection(address, PROBE_SECONDS) as connection:
            connection.sendall(_WORD)
            answer = connection.recv(4096)
    except socket.gaierror as error:
        return UserError(
            f"the host name {address[0]} is not known",
            error.strerror or str(error),
            "check the spelling of the address",
            exit_code=Exit.CANNOT_CONNECT,
        )
    except ConnectionRefusedError as error:
        return nothing_listens(where, error)
    except TimeoutError:
        return None
    except OSError as error:
        return _no_zookeeper(where, str(error))
    if answer.startswith(_ANSWERS):
        return None
    said = "it answers something else" if answer else "it ends the connection"
    return _no_zookeeper(where, f"{said} to ZooKeeper's word {_WORD.decode()}")


def _no_zookeeper(where: str, why: str) -> UserError:
    return UserError(
        f"{where} does not speak ZooKeeper's protocol",
        why,
        "name the client port of a ZooKeeper with -z HOST:PORT",
        exit_code=Exit.CANNOT_CONNECT,
    )

"""A connected client of a cluster; its failures are errors in three lines: the problem, the cause, the remedy."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from trimaran.client import TIMEOUT_SECONDS
from trimaran.errors import connecting
from trimaran.errors.config import of_config
from trimaran.errors.connecting import mechanisms_wanted, no_conversation, wants_login
from trimaran.errors.refused import UnknownName, refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config.config_def import ConfigError
from trimaran.settings.properties import read_file, resolved
from trimaran.wire.blocking import CLIENT_ID, BlockingClient
from trimaran.wire.client.bootstrap import parse_bootstrap
from trimaran.wire.client.errors import (
    AuthenticationRefused,
    ConnectionLost,
    ConnectRefused,
    RequestTimedOut,
    VersionMismatch,
)
from trimaran.wire.errors import ErrorCode, KafkaError, LocalProtocolError, RemoteProtocolError
from trimaran.wire.identity import Address
from trimaran.wire.later import imported_later
from trimaran.wire.messages.describe_cluster import CONTROLLERS, DescribeClusterRequest
from trimaran.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from trimaran.client import groups, partitions
    from trimaran.node.security import listener_security
    from trimaran.settings.properties import PropertySetting
    from trimaran.wire.security.listener import ClientSecurity
else:
    groups = imported_later("trimaran.client.groups")
    partitions = imported_later("trimaran.client.partitions")
    listener_security = imported_later("trimaran.node.security.listener_security")

# The wait before the next node is tried; a slow node is tried again later.
HELLO_SECONDS = 1.0
CLIENT_ID_KEY = "client.id"
NO_SETTINGS: Mapping[str, PropertySetting] = MappingProxyType({})


def _keys(
    command_config: Path | None, settings: Mapping[str, PropertySetting]
) -> Mapping[str, PropertySetting]:
    """Returns the client keys of the file and of the options, with the values of their providers."""
    of_file = {} if command_config is None or not command_config.name else read_file(command_config)
    given = {**of_file, **settings}
    return resolved(given, os.environ) if given else given


def _security(keys: Mapping[str, PropertySetting]) -> ClientSecurity | None:
    """Returns the security settings; None for plaintext."""
    return listener_security.client_security(keys) if keys else None


def _client_id(settings: Mapping[str, PropertySetting]) -> str:
    """Returns the name of the client in groups, quotas and logs of brokers; an empty one is none, as in Kafka."""
    setting = settings.get(CLIENT_ID_KEY)
    return CLIENT_ID if setting is None else setting.value or CLIENT_ID


def _addresses(bootstrap: str, *, of_controllers: bool) -> list[Address]:
    try:
        return parse_bootstrap(bootstrap)
    except ValueError as error:
        option = "-B" if of_controllers else "-b"
        raise UserError(
            f"{bootstrap} is not a list of addresses",
            str(error),
            f"addresses are written {option} HOST:PORT,…",
            exit_code=Exit.USAGE,
        ) from error


@contextmanager
def connected(
    bootstrap: str,
    *,
    of_controllers: bool = False,
    command_config: Path | None = None,
    settings: Mapping[str, PropertySetting] = NO_SETTINGS,
    timeout: float = TIMEOUT_SECONDS,
    waiting: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Iterator[BlockingClient]:
    """Yields a client of the cluster at `bootstrap`; its failures become `UserError`s with the appropriate exit code.

    Args:
        bootstrap: HOST:PORT,…
        of_controllers: the addresses are those of controllers.
        command_config: a file with Kafka's client keys.
        settings: client keys that override the file's.
        timeout: the seconds that a request may take, with all retries.
        waiting: a context that is entered with the name of each request until its response.
    """
    try:
        keys = _keys(command_config, settings)
        security = _security(keys)
    except ConfigError as error:
        raise of_config(error) from error
    addresses = _addresses(bootstrap, of_controllers=of_controllers)
    try:
        with BlockingClient(
            addresses,
            client_id=_client_id(keys),
            of_controllers=of_controllers,
            timeout=timeout,
            security=security,
            waiting=waiting,
        ) as client:
            _ensure_the_right_kind_listens(
                client, addresses, security, of_controllers=of_controllers
            )
            try:
                yield client
            except UnknownName as error:
                if not of_controllers:
                    _suggest(client, error)
                raise
    except AuthenticationRefused as error:
        raise connecting.not_authenticated(bootstrap, error) from error
    except KafkaError as error:
        raise refused(error) from error
    except RemoteProtocolError as error:
        raise UserError(
            f"{bootstrap} sent a malformed response",
            str(error),
            "check that it is a Kafka cluster, and the logs of its nodes",
            exit_code=Exit.REFUSED,
        ) from error
    except LocalProtocolError as error:
        if not isinstance(error.__cause__, UnicodeEncodeError | struct.error):
            raise
        raise UserError(
            "a name or a value of this command cannot be sent",
            str(error),
            "names and values are UTF-8 text; a name has at most 32767 bytes",
            exit_code=Exit.USAGE,
        ) from error
    except VersionMismatch as error:
        raise UserError(
            f"{bootstrap} does not support this request",
            str(error),
            "it may be an older release, or lack a feature: trimaran features list",
            exit_code=Exit.REFUSED,
        ) from error
    except (ConnectionLost, RequestTimedOut) as error:
        raise connecting.timed_out(
            addresses, error, security, of_controllers=of_controllers
        ) from error


def _suggest(client: BlockingClient, error: UnknownName) -> None:
    """Adds a similar name of the cluster to the error, if the brokers list their names."""
    try:
        if error.kind == "topic":
            error.suggest([topic.name or "" for topic in partitions.topics_of(client, None)])
        elif error.kind == "group":
            error.suggest([str(row["group"]) for row in groups.group_rows(client)])
    except (KafkaError, ConnectionLost, RequestTimedOut, VersionMismatch):
        pass  # the error without a suggestion is the one to show


def _ensure_the_right_kind_listens(
    client: BlockingClient,
    addresses: list[Address],
    security: ClientSecurity | None,
    *,
    of_controllers: bool,
) -> None:
    """Checks that a listener of the right kind responds: retries help with nodes that come and go, but an error that no
    retry can solve should be reported immediately.

    A frozen node accepts connections but does not respond: it is skipped if another one responds.
    """
    lost: list[tuple[Address, ConnectionLost]] = []
    for address in addresses:
        try:
            connection = client.connection_to(address, timeout=HELLO_SECONDS)
        except ConnectionLost as error:
            client.routing.bootstrap.failed(address)
            if not isinstance(error.__cause__, TimeoutError):
                lost.append((address, error))
        except RequestTimedOut:
            client.routing.bootstrap.failed(address)
        else:
            serves_clients = MetadataRequest.KEY in connection.negotiated.versions
            if serves_clients is of_controllers:
                raise _wrong_kind(str(address), is_broker=serves_clients)
            if security is None or security.sasl is None:
                _ensure_no_login_is_wanted(client, address, security, of_controllers=of_controllers)
            return
    if len(lost) == len(addresses):
        told = (loss for loss in lost if not isinstance(loss[1], ConnectRefused))
        address, failure = next(told, lost[0])
        raise no_conversation(address, failure, security) from failure


def _ensure_no_login_is_wanted(
    client: BlockingClient,
    address: Address,
    security: ClientSecurity | None,
    *,
    of_controllers: bool,
) -> None:
    """Checks that the listener requires no login: ApiVersions needs none, but a listener with SASL refuses the next
    request, and Apache Kafka's closes the connection.
    """
    request = (
        DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=CONTROLLERS
        )
        if of_controllers
        else MetadataRequest(topics=[], allow_auto_topic_creation=False)
    )
    try:
        response = client.connection_to(address).call(request, timeout=HELLO_SECONDS)
        if response.error_code != ErrorCode.ILLEGAL_SASL_STATE:
            return
    except (ConnectionLost, RequestTimedOut, VersionMismatch):
        pass
    client.close()
    if mechanisms := mechanisms_wanted(address, security):
        raise wants_login(address, mechanisms)


def _wrong_kind(address: str, *, is_broker: bool) -> UserError:
    """Returns the error for a listener of the wrong kind: each kind has requests that the other does not serve
    (KIP-919).
    """
    if is_broker:
        return UserError(
            f"{address} is a broker's listener, and this command asks controllers",
            "it serves Metadata requests, which controllers do not",
            "name a controller's address with -B; a node in both roles has another port for it",
            exit_code=Exit.USAGE,
        )
    return UserError(
        f"{address} is a controller's listener, and this command asks brokers",
        "it does not serve Metadata requests",
        "name a broker's address with -b; a node in both roles has another port for it",
        exit_code=Exit.USAGE,
    )

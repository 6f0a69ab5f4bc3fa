"""The cluster to which a command connects: `-b` or `-B`, a profile, the environment, or the local cluster of `--data`;
and its connection settings from `--command-config` and `-X`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter, validators

from trimaran.cli.output import say
from trimaran.cli.progress import waiting
from trimaran.client import TIMEOUT_SECONDS
from trimaran.client import connect as client_connect
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import state_file
from trimaran.node.config import oauthbearer_keys
from trimaran.node.security import listener_security
from trimaran.settings import profiles, properties

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

ENVIRONMENTS = ("TRIMARAN_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")
COMMAND_CONFIG_OPTION = "--command-config"
COMMAND_CONFIG_VARIABLE = "TRIMARAN_COMMAND_CONFIG"
DEFAULT_DATA = Path(".trimaran")

_CONNECTION = Group("Connection", sort_key=10)  # less than the timeout of a command
_LOCAL = "by default those of the local cluster"
Bootstrap = Annotated[
    str | None,
    Parameter(name=["-b", "--bootstrap-server"], help=f"Brokers, HOST:PORT,…; {_LOCAL}."),
]
ControllerBootstrap = Annotated[
    str | None,
    Parameter(name=["-B", "--bootstrap-controller"], help=f"Controllers, HOST:PORT,…; {_LOCAL}."),
]
Zookeeper = Annotated[
    str | None,
    Parameter(
        name=["-z", "--zookeeper"],
        help="ZooKeeper, HOST:PORT,… with an optional chroot; by default that of the local cluster.",
    ),
]
Data = Annotated[
    Path,
    Parameter(name="--data", help="The directory of the local cluster, as given to trimaran up."),
]
NodeDirectories = Annotated[
    Path,
    Parameter(
        name="--data",
        help="A directory with log directories of nodes, ours or Apache Kafka's; by default the local cluster's.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    Parameter(
        name=COMMAND_CONFIG_OPTION,
        env_var=COMMAND_CONFIG_VARIABLE,
        help="A properties file with Kafka's client keys: security.protocol, ssl.…, sasl.…, client.id.",
    ),
]
DryRun = Annotated[
    bool,
    Parameter(
        name="--dry-run",
        negative=(),
        help="Only show what would change, checked by the cluster where it can; nothing is changed.",
    ),
]
Profile = Annotated[
    str | None,
    Parameter(
        name="--profile",
        env_var="TRIMARAN_PROFILE",
        help="A cluster by name, from ~/.config/trimaran/profiles/NAME.properties; trimaran up writes local.",
    ),
]
Extra = Annotated[
    tuple[str, ...],
    Parameter(
        name=["-X", "--property"],
        negative=(),
        help="KEY=VALUE: one of Kafka's client keys; overrides the file. May be repeated.",
    ),
]
Timeout = Annotated[
    float,
    Parameter(
        name="--timeout",
        validator=validators.Number(gt=0),
        help="Seconds that a request may take, retries included.",
    ),
]


def remember(state: state_file.ClusterState) -> None:
    """Writes the profile `local` for a local cluster."""
    profiles.write(
        profiles.LOCAL,
        {
            profiles.BROKERS: state.bootstrap,
            profiles.CONTROLLERS: state.controller_bootstrap,
            profiles.ZOOKEEPER: state.zookeeper,
        },
    )


# An election takes about a second, or two if votes were split; after this time no leader is to be expected.
LEADER_SECONDS = 4.0


class _Target:
    """The common part of commands for brokers and of commands for controllers."""

    command_config: Path | None
    profile: str | None
    extra: tuple[str, ...]
    timeout: float

    @property
    def leader_seconds(self) -> float:
        """Returns the seconds to wait for a leader of the quorum."""
        return min(LEADER_SECONDS, self.timeout)

    def settings(self) -> dict[str, properties.PropertySetting]:
        """Returns the client keys of the profile, the file and `-X`; a later one takes precedence. Raises UserError."""
        found = dict(_profile(self.profile))
        if self.command_config is not None and self.command_config.name:
            found |= properties.read_file(self.command_config)
        found |= _extras(self.extra)
        for key in found:
            if (why := oauthbearer_keys.why_without_effect(key)) is not None:
                say(f"{key} has no effect here: {why}")
        return {key: value for key, value in found.items() if key not in profiles.ADDRESSES}


def _profile(name: str | None) -> Mapping[str, properties.PropertySetting]:
    return {} if not name else profiles.load(name)


def _extras(words: tuple[str, ...]) -> dict[str, properties.PropertySetting]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not _is_client_key(key):
            raise UserError(
                f"cannot use -X {word}",
                "it is not KEY=VALUE with one of Kafka's client keys for TLS and SASL, or client.id",
                "for example -X security.protocol=SSL -X ssl.truststore.location=ca.pem",
                exit_code=Exit.USAGE,
            )
        found[key] = properties.PropertySetting(value, "-X")
    return found


def _is_client_key(key: str) -> bool:
    return (
        key == client_connect.CLIENT_ID_KEY
        or listener_security.is_client_key(key)
        or oauthbearer_keys.why_without_effect(key) is not None
    )


@Parameter(name="*", group=_CONNECTION)
@dataclass(frozen=True)
class Brokers(_Target):
    """The brokers to which a command connects, and the connection settings."""

    bootstrap: Bootstrap = None
    data: Data = DEFAULT_DATA
    command_config: CommandConfig = None
    profile: Profile = None
    extra: Extra = ()
    timeout: Timeout = TIMEOUT_SECONDS

    @property
    def addresses(self) -> str:
        return bootstrap_of(self.bootstrap, self.data, self.profile)

    def connected(self) -> AbstractContextManager[BlockingClient]:
        """See `connected`."""
        addresses = self.addresses  # without addresses, no client is loaded
        return client_connect.connected(
            addresses, settings=self.settings(), timeout=self.timeout, waiting=waiting
        )


@Parameter(name="*", group=_CONNECTION)
@dataclass(frozen=True)
class Controllers(_Target):
    """The controllers to which a command connects, and the connection settings."""

    bootstrap: ControllerBootstrap = None
    data: Data = DEFAULT_DATA
    command_config: CommandConfig = None
    profile: Profile = None
    extra: Extra = ()
    timeout: Timeout = TIMEOUT_SECONDS

    @property
    def addresses(self) -> str:
        return controllers_of(self.bootstrap, self.data, self.profile)

    def connected(self) -> AbstractContextManager[BlockingClient]:
        """See `connected`."""
        addresses = self.addresses
        return client_connect.connected(
            addresses,
            of_controllers=True,
            settings=self.settings(),
            timeout=self.timeout,
            waiting=waiting,
        )


@Parameter(name="*", group=_CONNECTION)
@dataclass(frozen=True)
class QuorumNodes(_Target):
    """The controllers to which a command about the quorum connects, or the brokers that pass its requests on."""

    controllers: ControllerBootstrap = None
    brokers: Annotated[
        str | None,
        Parameter(
            name=["-b", "--bootstrap-server"],
            help="Brokers, HOST:PORT,…, which ask the controllers; in place of -B.",
        ),
    ] = None
    data: Data = DEFAULT_DATA
    command_config: CommandConfig = None
    profile: Profile = None
    extra: Extra = ()
    timeout: Timeout = TIMEOUT_SECONDS

    @property
    def are_controllers(self) -> bool:
        """Whether the addresses are those of controllers. Raises UserError."""
        if self.controllers and self.brokers:
            raise UserError(
                "-b and -B cannot be combined",
                "one asks the quorum by way of brokers, the other asks controllers",
                "leave out one of them",
                exit_code=Exit.USAGE,
            )
        if self.controllers or self.brokers:
            return bool(self.controllers)
        if self.profile:
            return profiles.CONTROLLERS in _profile(self.profile)
        return _local(self.data, "controller_bootstrap") is not None or not _from_environment()

    @property
    def addresses(self) -> str:
        if self.are_controllers:
            return controllers_of(self.controllers, self.data, self.profile)
        return bootstrap_of(self.brokers, self.data, self.profile)

    def connected(self) -> AbstractContextManager[BlockingClient]:
        """See `connected`."""
        addresses = self.addresses
        return client_connect.connected(
            addresses,
            of_controllers=self.are_controllers,
            settings=self.settings(),
            timeout=self.timeout,
            waiting=waiting,
        )


# Defaults of the connection options of every command.
BROKERS = Brokers()
CONTROLLERS = Controllers()
QUORUM_NODES = QuorumNodes()


def bootstrap_of(given: str | None, data: Path, profile: str | None = None) -> str:
    """Returns the brokers to connect to."""
    found = (
        given
        or _of_profile(profile, profiles.BROKERS)
        or _from_environment()
        or _local(data, "bootstrap")
    )
    if not found:
        raise _no_target("broker", "-b HOST:PORT")
    return found


def _of_profile(name: str | None, key: str) -> str | None:
    """Returns a key of the profile. Raises UserError if the profile does not have it."""
    if not name:
        return None
    found = _profile(name).get(key)
    if found is None:
        raise UserError(
            f"profile {name} names no {key}",
            f"{profiles.folder() / name}{profiles.SUFFIX} has no such line",
            f"add {key}=HOST:PORT",
            exit_code=Exit.USAGE,
        )
    return found.value


def _from_environment() -> str | None:
    return next((os.environ[name] for name in ENVIRONMENTS if os.environ.get(name)), None)


def controllers_of(given: str | None, data: Path, profile: str | None = None) -> str:
    """Returns the controllers to connect to."""
    found = (
        given or _of_profile(profile, profiles.CONTROLLERS) or _local(data, "controller_bootstrap")
    )
    if not found:
        raise _no_target("controller", "-B HOST:PORT")
    return found


def zookeeper_of(given: str | None, data: Path) -> str:
    """Returns the ZooKeeper to connect to."""
    found = given or _local(data, "zookeeper")
    if not found:
        raise _no_target("ZooKeeper", "-z HOST:PORT")
    return found


def _local(data: Path, field: str) -> str | None:
    path = state_file.nearest(data)
    if not (path / state_file.FILE_NAME).exists():
        return None
    value = getattr(state_file.read(path), field)
    return str(value) if value else None


def _no_target(kind: str, option: str) -> UserError:
    return UserError(
        f"no {kind} to connect to",
        f"no {option} was given, and there is no local cluster with one here",
        f"name one with {option}, or start a cluster: trimaran up -d",
        exit_code=Exit.USAGE,
    )

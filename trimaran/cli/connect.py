"""Whom a command asks: `-b` or `-B`, the environment, or the local cluster of `--data`; `--command-config` for TLS and
SASL.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.client.connect import connected
from trimaran.errors import Exit, UserError
from trimaran.local import state_file

if TYPE_CHECKING:
    from wire.blocking import BlockingClient

ENVIRONMENTS = ("TRIMARAN_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")
COMMAND_CONFIG_OPTION = "--command-config"
COMMAND_CONFIG_VARIABLE = "TRIMARAN_COMMAND_CONFIG"
DEFAULT_DATA = Path(".trimaran")

_LOCAL = "those of the local cluster when not given"
Bootstrap = Annotated[
    str | None,
    Parameter(name=["-b", "--bootstrap-server"], help=f"Brokers, HOST:PORT,…; {_LOCAL}."),
]
ControllerBootstrap = Annotated[
    str | None,
    Parameter(name=["-B", "--bootstrap-controller"], help=f"Controllers, HOST:PORT,…; {_LOCAL}."),
]
Zookeeper = Annotated[str | None, Parameter(name=["-z", "--zookeeper"])]
Data = Annotated[
    Path,
    Parameter(name="--data", help="The directory of the local cluster, as trimaran up has it."),
]
CommandConfig = Annotated[
    Path | None,
    Parameter(
        name=COMMAND_CONFIG_OPTION,
        env_var=COMMAND_CONFIG_VARIABLE,
        help="A properties file with Kafka's client keys: security.protocol, ssl.…, sasl.….",
    ),
]
DryRun = Annotated[bool, Parameter(name="--dry-run")]


@Parameter(name="*")
@dataclass(frozen=True)
class Brokers:
    """Which brokers a command asks, and how."""

    bootstrap: Bootstrap = None
    data: Data = DEFAULT_DATA
    command_config: CommandConfig = None

    def connected(self) -> AbstractContextManager[BlockingClient]:
        """See `connected`."""
        addresses = bootstrap_of(self.bootstrap, self.data)
        return connected(addresses, command_config=self.command_config)


@Parameter(name="*")
@dataclass(frozen=True)
class Controllers:
    """Which controllers a command asks, and how."""

    bootstrap: ControllerBootstrap = None
    data: Data = DEFAULT_DATA
    command_config: CommandConfig = None

    @property
    def addresses(self) -> str:
        return controllers_of(self.bootstrap, self.data)

    def connected(self) -> AbstractContextManager[BlockingClient]:
        """See `connected`."""
        return connected(self.addresses, of_controllers=True, command_config=self.command_config)


# Defaults of the options of every command that asks somebody.
BROKERS = Brokers()
CONTROLLERS = Controllers()


def bootstrap_of(given: str | None, data: Path) -> str:
    """The brokers to ask."""
    found = given or _from_environment() or _local(data, "bootstrap")
    if not found:
        raise _no_target("broker", "-b HOST:PORT")
    return found


def _from_environment() -> str | None:
    return next((os.environ[name] for name in ENVIRONMENTS if os.environ.get(name)), None)


def controllers_of(given: str | None, data: Path) -> str:
    """The controllers to ask."""
    found = given or _local(data, "controller_bootstrap")
    if not found:
        raise _no_target("controller", "-B HOST:PORT")
    return found


def zookeeper_of(given: str | None, data: Path) -> str:
    """The ZooKeeper to ask."""
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
        f"no {kind} to ask",
        f"no {option} was given and there is no local cluster with one here",
        f"name one with {option}, or start a cluster: trimaran up -d",
        exit_code=Exit.USAGE,
    )

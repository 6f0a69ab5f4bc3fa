"""`controller|broker|server start -c FILE` and `storage format|random-uuid`: the production form, one process each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from quorum.config.server import ServerConfig
from trimaran.cli.output import say
from trimaran.errors import Exit, UserError
from trimaran.properties import load

ConfigFile = Annotated[Path, Parameter(name=["-c", "--config"])]
Overrides = Annotated[list[str] | None, Parameter(name="--override")]


def _config(file: Path, override: list[str] | None) -> ServerConfig:
    from trimaran.node import parse_config

    return parse_config(load(file, override or [], os.environ))


def _start(config: ServerConfig) -> int:
    from trimaran.node import say_started, serve

    serve(config, lambda: say_started(config))
    return Exit.OK


def _start_as(role: str, file: Path, override: list[str] | None) -> int:
    config = _config(file, override)
    roles = list(config["process.roles"])
    if roles != [role]:
        raise UserError(
            f"{file} is not the file of a {role}",
            f"process.roles is {','.join(roles) or 'empty'}",
            f"set process.roles={role}, or use: trimaran server start -c {file}",
            exit_code=Exit.USAGE,
        )
    return _start(config)


def controller_start(*, config: ConfigFile, override: Overrides = None) -> int:
    """Runs a controller in this process until SIGTERM or Ctrl-C."""
    return _start_as("controller", config, override)


def broker_start(*, config: ConfigFile, override: Overrides = None) -> int:
    """Runs a broker in this process until SIGTERM or Ctrl-C; it hands over its leaderships before it goes."""
    return _start_as("broker", config, override)


def server_start(*, config: ConfigFile, override: Overrides = None) -> int:
    """Runs every role that the file's process.roles names."""
    return _start(_config(config, override))


def storage_random_uuid() -> None:
    """Prints a new cluster id."""
    from quorum.storage import random_uuid

    print(random_uuid())


def storage_format(
    *,
    config: ConfigFile,
    cluster_id: Annotated[str, Parameter(name=["-t", "--cluster-id"])],
    ignore_formatted: Annotated[bool, Parameter(name=["-g", "--ignore-formatted"])] = False,
    override: Overrides = None,
) -> int:
    """Formats the directories of a node, as Kafka's kafka-storage format does.

    Args:
        config: the node's properties file.
        cluster_id: the id all nodes of the cluster share, from `trimaran storage random-uuid`.
        ignore_formatted: leave directories alone that are formatted already, instead of refusing.
        override: key=value settings, before those of the file.
    """
    from quorum.storage import format_directories

    for directory in format_directories(
        _config(config, override), cluster_id, ignore_formatted=ignore_formatted
    ):
        say(f"Formatting {directory} with metadata.version of Apache Kafka 4.3")
    return Exit.OK

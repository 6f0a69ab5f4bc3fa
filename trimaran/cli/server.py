"""`controller|broker|server start -c FILE`: runs a node in production, one process for each."""

from __future__ import annotations

from pathlib import Path

from trimaran.cli.node_file import ConfigFile, Overrides, node_config
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config import server
from trimaran.running import node_process


def _start(config: server.ServerConfig) -> int:
    node_process.serve(config, lambda: node_process.say_started(config))
    return Exit.OK


def _start_as(role: str, file: Path, override: list[str] | None) -> int:
    config = node_config(file, override, to_serve=True)
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
    """Runs a controller in this process until SIGTERM or Ctrl-C.

    Args:
        config: The properties file of the node, with Apache Kafka's keys.
    """
    return _start_as("controller", config, override)


def broker_start(*, config: ConfigFile, override: Overrides = None) -> int:
    """Runs a broker in this process until SIGTERM or Ctrl-C; it hands over leadership before it stops.

    Args:
        config: The properties file of the node, with Apache Kafka's keys.
    """
    return _start_as("broker", config, override)


def server_start(*, config: ConfigFile, override: Overrides = None) -> int:
    """Runs all roles of a node (process.roles in its file) in this process until SIGTERM or Ctrl-C.

    Args:
        config: The properties file of the node, with Apache Kafka's keys.
    """
    return _start(node_config(config, override, to_serve=True))

"""The properties file of a node that a command names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimaran.node.config import server
from trimaran.settings import node_config as settings_node_config
from trimaran.settings import properties

ConfigFile = Annotated[Path, Parameter(name=["-c", "--config"])]
Overrides = Annotated[
    list[str] | None,
    Parameter(name="--override", help="KEY=VALUE, overrides the file. May be repeated."),
]


def node_config(
    file: Path, override: list[str] | None, *, to_serve: bool = False
) -> server.ServerConfig:
    """Returns the checked settings of a node from its file, the environment and `--override`. Raises UserError."""
    return settings_node_config.parse_config(
        properties.load(file, override or [], os.environ), to_serve=to_serve
    )

"""The properties file of a node, as commands name it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from trimaran.node.config.server import ServerConfig
from trimaran.settings.node_config import parse_config
from trimaran.settings.properties import load

ConfigFile = Annotated[Path, Parameter(name=["-c", "--config"])]
Overrides = Annotated[
    list[str] | None,
    Parameter(name="--override", help="KEY=VALUE, overrides the file. May be repeated."),
]


def node_config(file: Path, override: list[str] | None, *, to_serve: bool = False) -> ServerConfig:
    """Returns the checked settings of a node: of its file, the environment and `--override`. Raises UserError."""
    return parse_config(load(file, override or [], os.environ), to_serve=to_serve)

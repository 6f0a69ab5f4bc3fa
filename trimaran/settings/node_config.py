"""Checks the settings of a node."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from trimaran.errors.config import of_config
from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig, parse
from trimaran.settings.properties import PropertySetting, resolved


def parse_config(
    settings: Mapping[str, PropertySetting], *, to_serve: bool = False
) -> ServerConfig:
    """Checks all settings; a wrong value is a `UserError` that names its origin.

    Keys without effect warn on stderr; with `to_serve` they are not reported here: `serve` warns of them in the node's
    log.
    """
    settings = resolved(settings, os.environ)
    try:
        config = parse(settings)
    except ConfigError as error:
        raise of_config(error) from error
    for warning in () if to_serve else config.warnings.values():
        print(f"warning: {warning}", file=sys.stderr)  # noqa: T201
    return config

"""Warnings at a node's start about keys in its file that have no effect."""

from __future__ import annotations

import difflib
import re

from trimaran.node.config.config_def import ConfigKey
from trimaran.node.config.server_keys import SERVER_CONFIGS, listener_config

_OF_LISTENER = re.compile(r"listener\.name\.[^.]+\.(?P<key>.+)")
# Kafka's keys that end in names chosen by the user.
_OF_PLUGINS = ("rlmm.config.", "rsm.config.")
# `trimaran.node.config.providers` uses all of these.
_OF_PROVIDERS = "config.providers."


def base_key(name: str) -> ConfigKey | None:
    """Returns the key that `listener.name.LISTENER.KEY` or `listener.name.LISTENER.MECHANISM.KEY` sets for one
    listener.
    """
    found = _OF_LISTENER.fullmatch(name)
    if found is None:
        return None
    base = found["key"]
    return SERVER_CONFIGS.get(base) or SERVER_CONFIGS.get(base.partition(".")[2])


def warning_of(name: str) -> str | None:
    """Returns the reason why the key has no effect; None if it has an effect."""
    known = SERVER_CONFIGS.get(name)
    if known is not None:
        return f"{name} has no effect here: {known.no_effect}" if known.no_effect else None
    found = _OF_LISTENER.fullmatch(name)
    if found is not None and listener_config(found["key"]) is not None:
        return None
    if (base := base_key(name)) is not None:
        why = base.no_effect or "it cannot be set for one listener"
        return f"{name} has no effect here: {why}"
    if name.startswith(_OF_PROVIDERS):
        return None
    if name.startswith(_OF_PLUGINS):
        return f"{name} has no effect here: classes of Java do not run here"
    close = difflib.get_close_matches(name, SERVER_CONFIGS, 1, cutoff=0.85)
    return f"unknown key {name}" + (f"; did you mean {close[0]}?" if close else "")

"""Shared parts of the nodes of all clusters in this process: the cluster's id, configuration, formatted directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import trio

from trimaran.log.directories.meta_properties import MetaProperties
from trimaran.node.config.server import ServerConfig, parse

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
SECONDS = 60.0  # a run that passes never waits this long, however busy the machine is


def dotted(settings: Mapping[str, object]) -> dict[str, str]:
    """Returns configuration keys with dots; tests write underscores."""
    return {key.replace("_", "."): str(value) for key, value in settings.items()}


def server_config(settings: Mapping[str, str]) -> ServerConfig:
    return parse({k: SimpleNamespace(value=v, origin="test") for k, v in settings.items()})


def format_directory(path: Path, node_id: int, directory_id: bytes) -> None:
    """Formats the directory, unless it exists already."""
    path.mkdir(parents=True, exist_ok=True)
    if not (path / "meta.properties").exists():
        MetaProperties(CLUSTER_ID, node_id, directory_id).save(path)


async def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    with trio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 - conditions of other tasks' insides have no event
            await trio.sleep(0.002)

"""A controller with the ZooKeeper mirror, if that is enabled; `quorum/` does not import the mirror."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from trimaran.node.config.config_def import ConfigError
from trimaran.node.config.server import ServerConfig
from trimaran.quorum.controller.server import RunningController, run_controller
from trimaran.wire.later import imported_later

if TYPE_CHECKING:
    from trimaran.zkcompat import in_controller, settings
    from trimaran.zkcompat.mirroring.mirror import Mirror
else:
    settings = imported_later("trimaran.zkcompat.settings")
    in_controller = imported_later("trimaran.zkcompat.in_controller")

_KEY = "trimaran.zk.mirror.enable"
OnMirror = Callable[["Mirror"], object]


async def run_controller_role(
    config: ServerConfig,
    *,
    on_mirror: OnMirror = lambda _: None,
    task_status: trio.TaskStatus[RunningController] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs a controller until it is cancelled; raises as `run_controller` does. `on_mirror` gets its mirror, if it has
    one.
    """
    mirrors = has_mirror(config)
    async with trio.open_nursery() as nursery:
        running: RunningController = await nursery.start(_run_controller, config)
        if mirrors:
            nursery.start_soon(_mirror, config, running, on_mirror)
        task_status.started(running)


async def _run_controller(
    config: ServerConfig, *, task_status: trio.TaskStatus[RunningController]
) -> None:
    await run_controller(config, task_status=task_status)


def is_mirror_enabled(config: ServerConfig) -> bool:
    """Returns the value of trimaran's key, or of Kafka's if the former is not set."""
    own = config[_KEY]
    return bool(config["zookeeper.metadata.migration.enable"] if own is None else own)


def has_mirror(config: ServerConfig) -> bool:
    """Returns whether the mirror is enabled and can run. Raises ConfigError."""
    if not is_mirror_enabled(config):
        return False
    try:
        keeper_config, mirror_config = settings.keeper_config, settings.mirror_config
    except ModuleNotFoundError as error:
        why, fix = f"{error.name} is not installed", "pip install 'trimaran[zk]'"
        raise ConfigError(_KEY, "true", why, fix=fix) from error
    connect, texts = config["zookeeper.connect"], texts_of(config)
    if not connect:
        raise ConfigError(_KEY, "true", "zookeeper.connect must say where to mirror to")
    try:
        mirror_config(texts)
        keeper_config(connect, texts)
        settings.obeyed_kinds(texts, inside=True)
    except ValueError as error:
        raise ConfigError(_KEY, "true", str(error)) from error
    return True


async def _mirror(config: ServerConfig, running: RunningController, on_mirror: OnMirror) -> None:
    controller = in_controller.HostController(
        node_id=running.node_id,
        cluster_id=running.directory.meta_properties.cluster_id,
        node=running.node,
        loader=running.loader,
        directory=running.directory.path,
        quorum=running.context.controller,
    )
    await in_controller.mirror_in_controller(
        controller, config["zookeeper.connect"], texts_of(config), on_mirror
    )


def texts_of(config: ServerConfig) -> dict[str, str]:
    """Returns the explicit settings, as texts of a file of properties."""
    return {key: _text(value) for key, value in config.explicit.items() if value is not None}


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)

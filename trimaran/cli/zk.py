"""`zk start|mirror|status|tree|get`: a real ZooKeeper, and the mirror of the metadata in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import (
    DEFAULT_DATA,
    ControllerBootstrap,
    Data,
    Zookeeper,
    controllers_of,
    zookeeper_of,
)
from trimaran.cli.output import Format, put, say, show_data, show_fields
from trimaran.cli.progress import progress
from trimaran.client import zookeeper as client_zookeeper
from trimaran.errors import ports
from trimaran.errors import zookeeper as errors_zookeeper
from trimaran.errors.user_error import Exit, UserError
from trimaran.metrics import mirror_monitor, serving
from trimaran.node.config import key_warnings
from trimaran.node.text.escaping import one_line
from trimaran.node.text.wording import counted
from trimaran.running import log_lines
from trimaran.settings import properties as settings_properties
from trimaran.zkcompat.commands import mirror_process, tree_views
from trimaran.zkcompat.zookeeper import server_process

if TYPE_CHECKING:
    from trimaran.settings.properties import PropertySetting
    from trimaran.zkcompat.commands.mirror_process import Beside
    from trimaran.zkcompat.commands.tree_views import ZooKeeperStatus


READING = "reading ZooKeeper"
Config = Annotated[
    Path | None,
    Parameter(
        name=["-c", "--config"],
        help="A properties file: zookeeper.* keys, trimaran.zk.* keys for the mirror's user, and client keys for the "
        "controllers.",
    ),
]


def zookeeper_to_ask(
    given: str | None, data: Path, properties: Mapping[str, str] | None = None
) -> str:
    """Returns the ZooKeeper to connect to. Raises UserError or ValueError if the address is certainly not a
    ZooKeeper.
    """
    settings = properties or {}
    connect = given or settings.get("zookeeper.connect") or zookeeper_of(None, data)
    is_encrypted = settings.get("zookeeper.ssl.client.enable", "").strip().lower() == "true"
    if not is_encrypted and (error := errors_zookeeper.why_no_zookeeper(connect)):
        raise error
    return connect


def start(
    *,
    port: int = 2181,
    data: Annotated[Path, Parameter(name="--data")] = Path(".trimaran/zookeeper"),
) -> int:
    """Runs a ZooKeeper server until Ctrl-C or SIGTERM.

    Args:
        port: The port to listen on, at 127.0.0.1; 0 takes a free port.
        data: The directory for its data.
    """
    ports.ensure_port_is_free(port)
    with client_zookeeper.explained():
        server = server_process.start_zookeeper(
            data.resolve(), port, own_process_group=True, stop_with_parent=True
        )
    try:
        say(f"ZooKeeper is ready at {server.connect}, data in {data}; Ctrl-C stops it")
        server.wait()
    except KeyboardInterrupt:
        return Exit.OK
    finally:
        server.stop()
    say(f"ZooKeeper stopped by itself; its output is in {data / 'zookeeper.out'}")
    return Exit.NO


def mirror(
    *,
    controllers: ControllerBootstrap = None,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    state: Annotated[Path | None, Parameter(name="--state")] = None,
    config: Config = None,
) -> None:
    """Mirrors the metadata of a quorum, ours or Apache Kafka's, into ZooKeeper until SIGTERM or Ctrl-C.

    Args:
        state: The directory where the mirror keeps its ZooKeeper session between restarts; by default DATA/mirror.
    """
    settings = (
        settings_properties.resolved(settings_properties.read_file(config), os.environ)
        if config
        else {}
    )
    _warn_without_effect(settings)
    properties = {key: setting.value for key, setting in settings.items()}
    connect = zookeeper or properties.get("zookeeper.connect") or zookeeper_of(None, data)
    bootstrap = controllers_of(controllers, data)
    say(f"mirroring {bootstrap} into {connect}")
    log_lines.set_up_mirror()
    with client_zookeeper.explained():
        mirror_process.run_mirror(
            bootstrap, connect, state or data / "mirror", properties, _metrics_of(properties)
        )


def _metrics_of(properties: Mapping[str, str]) -> Beside:
    """Serves the mirror's metrics if its file has a listener for them."""
    text = properties.get("trimaran.metrics.listener", "").strip()
    if not text:
        return mirror_process.no_companion
    address = serving.address_of(text)
    assert address is not None
    return partial(mirror_monitor.mirror_with_metrics, address)


def _warn_without_effect(settings: Mapping[str, PropertySetting]) -> None:
    """Warns about the mirror's keys only, since its file may be that of a broker."""
    for key, setting in settings.items():
        is_own = key.startswith("zookeeper.") and not key.endswith(".migration.enable")
        if is_own and (warning := key_warnings.warning_of(key)) is not None:
            say(f"warning: {setting.origin}: {warning}")


def status(
    *,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    config: Config = None,
    output: Format = "table",
) -> int:
    """Shows what is mirrored, and by which mirror.

    Exit code 1 if no mirror is alive, or if it has no contact with the quorum.
    """
    with client_zookeeper.explained():
        properties = client_zookeeper.properties_of(config)
        connect = zookeeper_to_ask(zookeeper, data, properties)
        with progress(READING):
            found = tree_views.status(connect, properties)
    if not show_data(
        {
            **asdict(found),
            "lag_records": found.lag_records,
            "mirror_alive": found.mirror_alive,
            "quorum_alive": found.quorum_alive,
            "healthy": found.healthy,
        },
        output,
    ):
        show_fields(_status_fields(found), output)
        for refusal in found.mirror.refusals if found.mirror else ():
            put(f"held back: {one_line(refusal)}")
    for why in _unhealthy(found):
        say(why)
    return Exit.OK if found.mirror_alive and found.quorum_alive else Exit.NO


def _unhealthy(found: ZooKeeperStatus) -> Iterator[str]:
    """Returns the problems, each with the command to examine it."""
    for path in found.unreadable:
        yield f"no permission to read {path}: name a user who has it, in the file of -c"
    if not found.mirror_alive:
        silent = ", the last one reported more than 15 s ago" if found.mirror is not None else ""
        yield f"no mirror is alive{silent}: is one running? trimaran ps, and its log"
    elif not found.quorum_alive:
        yield "the mirror has no contact with the quorum: trimaran quorum status"
    if found.mirror is not None and found.mirror.unknown:
        yield f"the tree may be stale by {found.mirror.unknown}: upgrade trimaran"


def _status_fields(found: ZooKeeperStatus) -> dict[str, object]:
    """Returns the status as text."""
    mirror = found.mirror
    fields: dict[str, object] = {
        "zookeeper": found.connect,
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "controller_epoch": found.controller_epoch,
        "kraft_controller_epoch": found.kraft_controller_epoch,
        "published_offset": found.published_offset,
        "published_epoch": found.published_epoch,
        "dirty": found.dirty,
        "live_brokers": found.live_brokers,
        "topics": found.topics,
        "mirror_alive": found.mirror_alive,
        "quorum_alive": found.quorum_alive,
    }
    if mirror is not None:
        fields |= {
            "mirror": f"{mirror.state}, process {mirror.pid} on {mirror.host}",
            "last_report": _ago(found.asked_ms - mirror.told_ms),
            "last_quorum_contact": "never"
            if mirror.quorum_heard_ms < 0
            else _ago(found.asked_ms - mirror.quorum_heard_ms),
            "lag": f"{_records(found.lag_records)}, {mirror.lag_ms / 1000:.1f} s",
            "claims": mirror.claims,
            "repairs": mirror.repairs,
            "held_back": mirror.quarantined,
            "last_problem": mirror.last_problem or None,
            "unknown_records": mirror.unknown or None,
        }
    names = [
        f"{standby.host} (process {standby.pid}, {standby.state})" for standby in found.standbys
    ]
    return {**fields, "standbys": names}


def _records(lag: int | None) -> str:
    return "unknown" if lag is None else counted(lag, "record")


def _ago(milliseconds: int) -> str:
    return f"{max(0, milliseconds) / 1000:.1f} s ago"


def tree(
    path: str = "/",
    *,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    config: Config = None,
    output: Format = "table",
) -> int:
    """Prints the znodes at and below a path. Exit code 1 if it does not exist.

    Args:
        path: The first znode, such as /brokers.
    """
    with client_zookeeper.explained():
        _check_path(path)
        properties = client_zookeeper.properties_of(config)
        where = zookeeper_to_ask(zookeeper, data, properties)
        with progress(READING):
            entries = tree_views.tree(where, path, properties=properties)
    if not entries:
        say(f"{path} does not exist")
    if not show_data([asdict(entry) for entry in entries], output):
        for entry in entries:
            mark = " (ephemeral)" if entry.ephemeral else ""
            text = f"(no permission to read it: {entry.refusal})" if entry.refusal else entry.text
            put(one_line(f"{entry.path}{mark}" + ("" if text is None else f"  {text}")))
    if len(entries) == tree_views.TREE_ENTRIES_MAX:
        say(f"only the first {len(entries):,} are shown; name a deeper path to see more")
    return Exit.OK if entries else Exit.NO


def get(
    path: str,
    *,
    zookeeper: Zookeeper = None,
    data: Data = DEFAULT_DATA,
    config: Config = None,
    output: Format = "table",
) -> int:
    """Prints the data of a znode. Exit code 1 if it does not exist.

    Args:
        path: The znode, such as /controller.
    """
    with client_zookeeper.explained():
        _check_path(path)
        properties = client_zookeeper.properties_of(config)
        where = zookeeper_to_ask(zookeeper, data, properties)
        with progress(READING):
            entry = tree_views.get(where, path, properties)
    if entry is None:
        say(f"{path} does not exist")
        return Exit.NO
    if not show_data(asdict(entry), output):
        put(entry.text or "")
    return Exit.OK


def _check_path(path: str) -> None:
    names = path.rstrip("/").split("/")[1:]
    if any(name in ("", ".", "..") or "\0" in name for name in names):
        raise UserError(
            f"{one_line(path)} is not a path",
            "the names in a path cannot be empty, . or ..",
            "trimaran zk tree / shows all znodes",
            exit_code=Exit.USAGE,
        )
    if not path.startswith("/"):
        raise UserError(
            f"{path} is not a path",
            "paths in ZooKeeper begin with a slash, below the chroot of -z",
            f"write /{path}",
            exit_code=Exit.USAGE,
        )

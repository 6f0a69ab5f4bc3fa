"""`brokers list|describe|add`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trimaran.cli import names
from trimaran.cli.connect import BROKERS, DEFAULT_DATA, Brokers, Data, DryRun, remember
from trimaran.cli.output import Format, put, say, show_data, show_fields, show_rows
from trimaran.cli.progress import progress
from trimaran.client import brokers as client_brokers
from trimaran.client import configs as client_configs
from trimaran.client import log_dirs, partitions
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.local import grow_running as local_grow_running
from trimaran.local import growing, layout, state_file
from trimaran.node.text.wording import counted
from trimaran.quorum.metadata import image
from trimaran.wire.identity import BrokerId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trimaran.wire.blocking import BlockingClient

COLUMNS = ("id", "address", "rack", "state", "leaders", "replicas")
ADDED_COLUMNS = ("role", "id", "address", "dir", "pid", "state")
DIR_COLUMNS = ("dir", "state", "replicas", "bytes", "usable", "total")


def list_brokers(*, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists all registered brokers, with the partitions that they lead and hold. Exit code 1 if one is fenced."""
    with brokers.connected() as client:
        rows = client_brokers.broker_rows(client, partitions.topics_of(client, None))
    show_rows(rows, output, columns=COLUMNS, noun="broker")
    return Exit.NO if any(row["state"] == "fenced" for row in rows) else Exit.OK


def describe(*ids: BrokerId, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Shows brokers: state, partitions, replicas out of sync, disks, and their dynamic configs.

    Exit code 1 if one is fenced, a log directory is offline, or one of several brokers does not exist.

    Args:
        ids: The ids of the brokers. With several, JSON and YAML are a list.
    """
    names.ensure_named(ids, "broker", "described")
    with brokers.connected() as client:
        topics = partitions.topics_of(client, None)
        rows = {row["id"]: row for row in client_brokers.broker_rows(client, topics)}
        found, missing = names.each(
            dict.fromkeys(ids), lambda broker: _described(client, broker, rows, topics)
        )
    if not show_data(found if len(ids) > 1 else found[0], output):
        for number, broker in enumerate(found):
            if number:
                put()
            _show(broker, output)
    return names.end(missing, Exit.OK if all(map(_is_well, found)) else Exit.NO)


def _show(broker: Mapping[str, Any], output: str) -> None:
    fields = {key: value for key, value in broker.items() if key != "log_dirs"}
    configs = " ".join(f"{key}={value}" for key, value in broker["configs"].items())
    show_fields({**fields, "configs": configs or None}, output)
    if broker["log_dirs"]:
        put()
        show_rows(broker["log_dirs"], output, columns=DIR_COLUMNS)


def _is_well(broker: Mapping[str, Any]) -> bool:
    return broker["state"] == "active" and all(
        log_dir["state"] == "online" for log_dir in broker["log_dirs"]
    )


def add(
    count: int = 1,
    *,
    dry_run: DryRun = False,
    data: Data = DEFAULT_DATA,
    output: Format = "table",
) -> int:
    """Adds brokers to the local cluster while it runs, and waits until they are ready.

    They are empty: new topics use them, and trimaran reassign plan proposes replicas to move there. If the start fails,
    it is undone. On other machines a broker is added with its own file: trimaran config init prints one, trimaran
    broker start runs it.

    Args:
        count: Number of brokers to add.
    """
    path = state_file.nearest(data)
    state = state_file.read(path)
    if count < 1:
        raise UserError(
            f"cannot add {count} brokers",
            "at least one is added",
            "trimaran brokers add 1",
            exit_code=Exit.USAGE,
        )
    if not state.is_up():
        raise UserError(
            f"cannot add {counted(count, 'broker')} to the cluster in {data}",
            "the cluster is not running",
            f"start it with: trimaran up -d --data {data}",
            exit_code=Exit.USAGE,
        )
    there = sum(node.role == "broker" for node in state.nodes)
    growing.ensure_brokers_grow(state_file.plan_of(path, state), there + count)
    if dry_run:
        ids = range(layout.FIRST_BROKER_ID + there, layout.FIRST_BROKER_ID + there + count)
        say(f"would add {counted(count, 'broker')}: {', '.join(map(str, ids))}")
        return Exit.OK
    with progress(f"starting {counted(count, 'broker')}"):
        new = local_grow_running.grow_running(path, state, growing.Growth(brokers=there + count))
    remember(state_file.read(path))
    rows = [asdict(node) for node in state_file.read(path).nodes if node.name in new]
    show_rows(rows, output, columns=ADDED_COLUMNS)
    return Exit.OK


def _described(
    client: BlockingClient,
    broker: BrokerId,
    rows: Mapping[BrokerId, Mapping[str, Any]],
    topics: Sequence[Any],
) -> dict[str, Any]:
    if broker not in rows:
        raise refused.no_broker(broker, rows)
    row = rows[broker]
    held = [p for topic in topics for p in topic.partitions if broker in p.replica_nodes]
    return {
        **row,
        "out_of_sync": sum(broker not in p.isr_nodes for p in held),
        "not_preferred": sum(p.replica_nodes[0] == broker and p.leader_id != broker for p in held),
        "configs": _configs(client, broker) if row["state"] == "active" else {},
        "log_dirs": _log_dirs(client, broker) if row["state"] == "active" else [],
    }


def _configs(client: BlockingClient, broker: BrokerId) -> dict[str, Any]:
    """Returns the configs that were set while the broker ran, for it or for all brokers, without those of its file."""
    rows = client_configs.config_rows(client, image.BROKER_RESOURCE, str(broker), broker)
    return {row["name"]: row["value"] for row in rows if row["config_source"].startswith("DYNAMIC")}


def _log_dirs(client: BlockingClient, broker: BrokerId) -> list[dict[str, Any]]:
    return [
        {
            "dir": item["dir"],
            "state": item["error"] or ("cordoned" if item["is_cordoned"] else "online"),
            "replicas": len(item["replicas"]),
            "bytes": sum(replica["size"] for replica in item["replicas"]),
            "usable": None if item["usable"] < 0 else item["usable"],
            "total": None if item["total"] < 0 else item["total"],
        }
        for item in log_dirs.log_dirs_of(client, broker)
    ]

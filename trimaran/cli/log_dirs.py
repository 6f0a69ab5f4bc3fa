"""`log-dirs`: the use of the brokers' disks, and the replicas on them."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from trimaran.cli import kafka_text, names
from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import KafkaFormat, show_rows
from trimaran.client import log_dirs as client_log_dirs
from trimaran.errors import refused
from trimaran.errors.user_error import Exit
from trimaran.wire.identity import BrokerId

COLUMNS = ("broker", "dir", "state", "replicas", "bytes", "usable", "total")


def log_dirs(
    *,
    broker: Annotated[list[BrokerId] | None, Parameter(name="--broker", negative=())] = None,
    topic: Annotated[list[str] | None, Parameter(name=["-t", "--topic"], negative=())] = None,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> int:
    """Shows the log directories of brokers: bytes of the replicas in them, and bytes of their disks.

    Exit code 1 if one is offline, or one of several named brokers is not live. JSON and YAML show every replica.

    Args:
        broker: Only this broker; by default all. May be repeated.
        topic: Only replicas of this topic, which may be a pattern, such as 'orders-*'; by default of all. May be
            repeated.
    """
    with brokers.connected() as client:
        client.refresh()
        known = sorted(client.routing.nodes)
        missing = refused.not_live(broker or (), known)
        asked = [BrokerId(node) for node in broker or known if node in known]
        if missing is not None and not asked:
            raise missing
        topics, missing_topics = names.topics_named(client, topic) if topic else (None, None)
        named = None if topics is None else [one.name or "" for one in topics]
        found = [row for node in asked for row in client_log_dirs.log_dirs_of(client, node, named)]
    rows = [
        {
            "broker": row["broker"],
            "dir": row["dir"],
            "state": row["error"] or ("cordoned" if row["is_cordoned"] else "online"),
            "bytes": sum(replica["size"] for replica in row["replicas"]),
            "usable": None if row["usable"] < 0 else row["usable"],
            "total": None if row["total"] < 0 else row["total"],
            "replicas": row["replicas"],
        }
        for row in found
    ]
    shown = rows
    if output in ("table", "wide"):
        shown = [{**row, "replicas": len(row["replicas"])} for row in rows]
    show_rows(
        shown,
        output,
        columns=COLUMNS,
        noun="log directory",
        kafka=lambda: kafka_text.log_dirs(found),
    )
    code = Exit.NO if any(row["error"] for row in found) else Exit.OK
    return names.end(missing or missing_topics, code)

"""The metadata log: the state at any offset, the records before it, and the differences between two offsets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from trimaran.client.positions import parse_time_ms
from trimaran.console.page import NotHere, Page, PageRequest, table
from trimaran.inspect.metadata.diff import state_differences
from trimaran.inspect.metadata.tree import Directory, image_tree
from trimaran.quorum.metadata.as_json import topic_as_json
from trimaran.quorum.metadata.image import TopicImage
from trimaran.quorum.raft_log.partition import DIRECTORY_NAME
from trimaran.quorum.raft_log.snapshot_files import SUFFIX, parse_snapshot_name
from trimaran.wire.identity import Offset

if TYPE_CHECKING:
    from pathlib import Path

    from trimaran.console.cluster import ConsoleCluster
    from trimaran.quorum.metadata.image import MetadataImage

RECORDS_SHOWN = 25
SNAPSHOTS_MAX = 200  # a node keeps only a few snapshots
NAMES_MAX = 200  # the entries shown of a directory; others can be found with the filter


def view(question: PageRequest) -> dict[str, Any]:
    log = question.cluster.log
    first, last = log.bounds()
    offset = Offset(question.number("offset", last))
    if time := question.text("time").strip():
        offset = log.offset_at(parse_time_ms(time))
    state = log.state_at(offset)
    return {
        "offset": offset,
        "is_newest": not question.query.get("offset") and not time,
        "first": first,
        "last": last,
        "timestamp_ms": state.image.provenance.timestamp_ms,
        "epoch": state.image.provenance.epoch,
        "leader_id": state.leader_id,
        "summary": _summary(state.image),
        "brokers": _brokers(state.image),
        "rows": log.records_before(offset, RECORDS_SHOWN),
        "snapshots": _snapshots(question.cluster),
        **_tree(question, state.image),
    }


def _snapshots(cluster: ConsoleCluster) -> list[dict[str, Any]]:
    """Returns snapshots, the newest first: the one with which the leader's log began, and for a local cluster all on
    its disks.
    """
    found = []
    if (told := cluster.log.snapshot()) is not None:
        found.append({"node": None, **asdict(told)})
    if cluster.data is not None:
        found += islice(_on_disk(cluster.data), SNAPSHOTS_MAX)
    return sorted(found, key=lambda one: (-one["end_offset"], one["node"] or ""))


def _on_disk(data: Path) -> Iterator[dict[str, Any]]:
    """Yields the files of each node; a file that is deleted meanwhile is skipped."""
    for path in data.glob(f"*/{DIRECTORY_NAME}/*{SUFFIX}"):
        id_ = parse_snapshot_name(path.name)
        with suppress(OSError):
            stat = path.stat()
            if id_ is not None:
                yield {
                    "node": path.parent.parent.name,
                    "end_offset": id_[0],
                    "epoch": id_[1],
                    "bytes": stat.st_size,
                    "timestamp_ms": stat.st_mtime_ns // 1_000_000,
                }


def _summary(image: MetadataImage) -> dict[str, int]:
    partitions = offline = under_replicated = 0
    for topic in image.topics.by_name.values():
        for partition in topic.partitions.values():
            partitions += 1
            offline += partition.leader < 0
            under_replicated += len(partition.isr) < len(partition.replicas)
    return {
        "topics": len(image.topics.by_name),
        "partitions": partitions,
        "offline": offline,
        "under_replicated": under_replicated,
        "configs": sum(len(values) for values in image.configs.by_resource.values()),
        "acls": len(image.acls),
        "users": len({user for user, _ in image.scram}),
    }


def _brokers(image: MetadataImage) -> list[dict[str, Any]]:
    return [
        {
            "id": broker.id,
            "state": "fenced"
            if broker.fenced
            else "shutting down"
            if broker.in_controlled_shutdown
            else "active",
        }
        for _, broker in sorted(image.cluster.brokers.items())
    ]


def _tree(question: PageRequest, image: MetadataImage) -> dict[str, Any]:
    """Returns the names in a directory of the state, with Kafka's paths, or the text of a file."""
    path = question.text("path", "/image").rstrip("/") or "/"
    node: Any = image_tree(image)
    for name in (part for part in path.split("/") if part):
        if not isinstance(node, Directory) or name not in node.children:
            raise NotHere(
                f"there is no {path[:200]} at this offset",
                "it did not exist then, or is spelled otherwise",
                "begin at /image",
            )
        node = node.children[name]()
    if not isinstance(node, Directory):
        return {"path": path, "names": None, "hidden": 0, "file": node}
    wanted = question.text("filter").strip().lower()
    names = sorted(name for name in node.children if wanted in name.lower())
    return {
        "path": path,
        "names": names[:NAMES_MAX],
        "hidden": max(0, len(names) - NAMES_MAX),
        "file": None,
    }


def view_diff(question: PageRequest) -> dict[str, Any]:
    log = question.cluster.log
    first, last = log.bounds()
    before = Offset(question.number("from", first))
    after = Offset(question.number("to", last))
    rows = list(state_differences(log.state_at(before), log.state_at(after), lambda topic: topic))
    shown = table(
        question, rows, columns=("path", "change"), sort="path", search=("path", "change")
    )
    for row in shown["rows"]:
        for side in ("before", "after"):
            if isinstance(row[side], TopicImage):
                row[side] = topic_as_json(row[side])
    return {**shown, "since": before, "to": after, "first": first, "last": last}


PAGE = Page("/metadata", "Metadata log", "metadata.html", view)
PAGE_OF_DIFF = Page("/metadata/diff", "What changed", "diff.html", view_diff)

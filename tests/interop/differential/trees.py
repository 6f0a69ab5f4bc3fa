"""A comparison of two trees znode by znode: paths, data as JSON, ACLs; change notifications are compared as the
sequence of their content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import trio

from trimaran.zkcompat.sections.notes import NOTE_ROOTS
from trimaran.zkcompat.settings import keeper_config
from trimaran.zkcompat.zookeeper.keeper import open_keeper

CONNECT_SECONDS = 20.0
_NUMBER = re.compile(r"\d{10}$")
_ABSENT = object()


@dataclass(frozen=True)
class Node:
    """A znode as other clients see it."""

    data: bytes
    ephemeral: bool
    acl: tuple[str, ...]


Tree = Mapping[str, Node]


@dataclass(frozen=True)
class Difference:
    """A difference; `kind` is missing, extra, content, order, ephemeral or acl; the first text is Kafka's. `fields` are
    the differing members of a JSON object, with each config separately.
    """

    kind: str
    path: str
    theirs: str = ""
    ours: str = ""
    fields: frozenset[str] = frozenset()


def read(connect: str, properties: Mapping[str, str]) -> Tree:
    """Returns everything below the chroot, except for ZooKeeper's own znodes."""

    async def main() -> Tree:
        async with open_keeper(keeper_config(connect, properties)) as keeper:
            assert await keeper.wait_connected(CONNECT_SECONDS)
            found = await keeper.read_tree(["/"], [])
            paths = sorted(path for path in found if not path.startswith("/zookeeper"))
            acls = await keeper.acls(paths)
            return {
                path: Node(found[path].data or b"", found[path].owner != 0, _texts(acl))
                for path, acl in zip(paths, acls, strict=True)
            }

    return trio.run(main)


def compare(theirs: Tree, ours: Tree) -> Iterator[Difference]:
    """Returns the differences, except for those of change notifications."""
    for path in sorted(theirs.keys() | ours.keys()):
        if is_note(path):
            continue
        one, other = theirs.get(path), ours.get(path)
        if one is not None and other is not None:
            yield from _compare(path, one, other)
        elif one is not None:
            yield Difference("missing", path, one.data.decode())
        elif other is not None:
            yield Difference("extra", path, "", other.data.decode())


def notes(tree: Tree) -> dict[str, list[str]]:
    """Returns the change notifications in order, by their root."""
    told: dict[str, list[str]] = {root: [] for root in NOTE_ROOTS}
    for path in sorted(filter(is_note, tree)):
        told[path.rpartition("/")[0]].append(tree[path].data.decode())
    return told


def configs_of(tree: Tree, note: str) -> dict[str, Any]:
    """Returns the configs of the entity that a change notification refers to."""
    node = tree.get(f"/config/{json.loads(note)['entity_path']}")
    found: dict[str, Any] = (
        json.loads(node.data)["config"] if node is not None and node.data else {}
    )
    return found


def is_note(path: str) -> bool:
    return path.rpartition("/")[0] in NOTE_ROOTS and _NUMBER.search(path) is not None


def _texts(acl: list[Any] | None) -> tuple[str, ...]:
    return tuple(sorted(f"{entry.id.scheme}:{entry.id.id}={entry.perms}" for entry in acl or ()))


def _compare(path: str, one: Node, other: Node) -> Iterator[Difference]:
    texts = one.data.decode(), other.data.decode()
    if one.data != other.data:
        fields = _differing(*(_members(text) for text in texts))
        yield Difference("content" if fields else "order", path, *texts, fields)
    if one.ephemeral != other.ephemeral:
        yield Difference("ephemeral", path, str(one.ephemeral), str(other.ephemeral))
    if one.acl != other.acl:
        yield Difference("acl", path, str(one.acl), str(other.acl))


def _members(text: str) -> dict[str, Any]:
    """Returns the values of the data by name; a value that is not in an object has the name ""."""
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if not isinstance(value, dict):
        return {"": value}
    config = value.pop("config", {})
    for name in {"acls", "isr"} & value.keys():  # compared as sets
        value[name] = sorted(json.dumps(item, sort_keys=True) for item in value[name])
    return value | {f"config {key}": value for key, value in config.items()}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> frozenset[str]:
    names = one.keys() | other.keys()
    return frozenset(n for n in names if one.get(n, _ABSENT) != other.get(n, _ABSENT))

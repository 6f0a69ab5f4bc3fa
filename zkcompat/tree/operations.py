"""Operations on the tree as values: what the plan says and the mirror runs. Pure.

Each has the name that Kafka's migration driver gave such a write and a sentence for the log. Most match any version:
the guard of each transaction (`claim.py`) makes the mirrors serial, and what is mirrored is nobody else's to write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from trimaran.zkcompat.tree.znode import Znode

# ZooKeeper refuses packets over jute.maxbuffer, 1 MiB less one byte; a third is left for what it adds when it logs.
BATCH_BYTES_MAX = 700_000
# What one operation costs on the wire besides path and data: headers, lengths, ACL.
OPERATION_BYTES = 96


# Of the keys of a config znode: those that are others' and stay (`shared_configs`).
Keeps = Callable[[str], bool]


class OperationKind(Enum):
    CREATE = "create"
    SET = "set"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class TreeOperation:
    """`version` is what the znode must have, -1: any. What is `secret` is written for its creator's eyes only.
    `keeps`: the znode is read before, and keys of others in it stay. `about`: the znode that a note tells of.
    """

    kind: OperationKind
    path: str
    name: str
    sentence: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    secret: bool = False
    version: int = -1
    keeps: Keeps | None = None
    about: str = ""

    @property
    def size_bytes(self) -> int:
        return len(self.path.encode()) + len(self.data or b"") + OPERATION_BYTES


def create(
    path: str, znode: Znode, name: str, sentence: str, keeps: Keeps | None = None
) -> TreeOperation:
    return TreeOperation(
        OperationKind.CREATE,
        path,
        name,
        sentence,
        znode.data,
        ephemeral=znode.ephemeral,
        secret=znode.secret,
        keeps=keeps,
    )


def set_data(
    path: str, znode: Znode, name: str, sentence: str, keeps: Keeps | None = None
) -> TreeOperation:
    return TreeOperation(
        OperationKind.SET, path, name, sentence, znode.data, secret=znode.secret, keeps=keeps
    )


def delete(path: str, name: str, sentence: str, keeps: Keeps | None = None) -> TreeOperation:
    return TreeOperation(OperationKind.DELETE, path, name, sentence, keeps=keeps)


def batches(operations: Iterable[TreeOperation], count_max: int) -> Iterator[list[TreeOperation]]:
    """Runs of operations that fit into one transaction each, in order.

    A note goes with what it tells of, even if that makes one more than `count_max`: who reads it later sees by the
    zxids that both were written at once.
    """
    batch: list[TreeOperation] = []
    size = 0
    for operation in operations:
        is_full = len(batch) >= count_max and not operation.sequential
        if batch and (is_full or size + operation.size_bytes > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(operation)
        size += operation.size_bytes
    if batch:
        yield batch

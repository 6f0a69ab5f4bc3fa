"""Values for expected znodes and for znodes that were read; and operations on the tree, which sections plan and the
writer runs. Pure.

Each operation has the name of the corresponding write in Kafka's migration driver, and a sentence for the log. Most
operations accept any version of the znode: the guard of each transaction (`claim.py`) orders the mirrors, and no other
client may write mirrored znodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

ANY_VERSION = -1  # ZooKeeper then does not compare the version


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode as it should be; `data` is None if it has no data. A `secret` can be read by its creator only."""

    data: bytes | None
    ephemeral: bool = False
    secret: bool = False


class FoundZnode(NamedTuple):
    """A znode as it was read; `owner` is the session of an ephemeral one, else 0. `children` is the number of its
    children.

    The zxids are those of the transactions that created it, wrote it last, and last created or deleted a child of it.
    `refusal` names ZooKeeper's error if the znode exists but may not be read.
    """

    data: bytes | None
    owner: int = 0
    version: int = 0
    created_ms: int = 0
    created_zxid: int = 0
    modified_zxid: int = 0
    refusal: str = ""
    children: int = 0
    modified_ms: int = 0
    children_zxid: int = 0


# Our own paths are shorter; a name that another client wrote may fill a packet of a MiB.
PATH_CHARS_PRINTED = 1000


def printable_path(path: str) -> str:
    """Returns the path, shortened for a log or a report."""
    if len(path) <= PATH_CHARS_PRINTED:
        return path
    return f"{path[:PATH_CHARS_PRINTED]}… ({len(path)} characters)"


FoundTree = Mapping[str, FoundZnode]


# ZooKeeper refuses packets over jute.maxbuffer, 1 MiB less one byte; a third is reserved for the bytes that it adds
# when it logs.
BATCH_BYTES_MAX = 700_000
# The bytes of one operation besides path and data: headers, lengths, ACL.
OPERATION_BYTES = 96


# True for a foreign key of a config znode, which stays (`sections/configs.py`).
Keeps = Callable[[str], bool]


class OperationKind(Enum):
    CREATE = "create"
    SET = "set"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class TreeOperation:
    """`version` is the required version of the znode. A `secret` znode can be read by its creator only. With `keeps`
    the znode is read first, and its foreign keys stay. `about` is the znode to which a note refers.
    """

    kind: OperationKind
    path: str
    name: str
    sentence: str
    data: bytes | None = None
    ephemeral: bool = False
    sequential: bool = False
    secret: bool = False
    version: int = ANY_VERSION
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
    """Yields runs of operations that fit into one transaction each, in order.

    A note is in the transaction of its znode, even if that makes one more than `count_max`: the zxids then show that
    both were written in one transaction.
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

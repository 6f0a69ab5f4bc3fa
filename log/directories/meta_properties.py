"""`meta.properties`: the cluster and node of a directory.

Source: Kafka's `MetaProperties`, KIP-858. A Java properties file:

```
version 1; 0, or none, in ZooKeeper mode
cluster.id    text; version 0 may lack it
node.id       int; broker.id in version 0
directory.id  UUID in base64url; files from before Kafka 3.7 lack it, and get one when the directory is used
```

Unknown keys are dropped, as in Kafka. A file of version 0 without cluster or node is refused: the owner of its
directory is unknown. Our file begins with a comment, which Kafka ignores, so that a changed id is detected:

    #crc32c <8 hexadecimal digits: of the following lines>
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import crc32c
import javaproperties

from trimaran.log.disk.atomic_file import write_atomically
from trimaran.log.disk.files import REAL_FILES, Files
from trimaran.log.disk.small_file import FileDamaged, read_small_file
from trimaran.wire.buffers.primitives import NIL_UUID, uuid_from_text, uuid_to_text
from trimaran.wire.identity import NodeId

FILE_NAME = "meta.properties"
RESERVED_END = (100).to_bytes(16, "big")  # Kafka reserves lower ids for other uses
_CHECKSUM = re.compile(rb"#crc32c ([0-9a-f]{8})\n")
_KEYS = frozenset({"version", "cluster.id", "node.id", "broker.id", "directory.id"})
# A cluster.id may be any text, as in Kafka, often base64 with "==". If it contains a key, the end of its line was lost.
_NO_CLUSTER_ID = re.compile(r"[\0-\x1f\x7f]|(version|(cluster|node|broker|directory)\.id)=")


class MetaPropertiesError(Exception):
    """The file is missing, damaged, or belongs to another cluster or node; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a log directory; `directory_id` is a UUID of 16 bytes, nil if the file has none.

    `cluster_id` is empty if the file has none: Kafka before 2.4 wrote none. Such a directory can be read, but not
    served (`log/directories/directory.py`).
    """

    cluster_id: str
    node_id: NodeId
    directory_id: bytes
    version: int = 1

    @classmethod
    def load(cls, directory: Path, files: Files = REAL_FILES) -> MetaProperties:
        """Reads the file. Raises MetaPropertiesError; OSError: the disk failed."""
        path = directory / FILE_NAME
        try:
            data = read_small_file(path, files)
        except FileDamaged as damage:
            raise MetaPropertiesError(str(damage)) from damage
        if data is None:
            raise MetaPropertiesError(f"{path} is missing: the directory is not formatted")
        try:
            return cls._parse(data)
        except KeyError as error:
            raise MetaPropertiesError(f"{path} has no {error.args[0]}") from None
        except ValueError as error:
            raise MetaPropertiesError(f"{path} is damaged: {error}") from None

    @classmethod
    def _parse(cls, data: bytes) -> MetaProperties:
        """Parses the properties. Raises ValueError; KeyError: a key is missing."""
        if not data.strip():
            raise ValueError("it is empty")
        checksum = _CHECKSUM.match(data)
        if checksum is not None and int(checksum[1], 16) != crc32c.crc32c(data[checksum.end() :]):
            raise ValueError(
                "its checksum does not match. If it was edited on purpose, remove the line of the checksum"
            )
        properties = javaproperties.loads(data.decode())
        version = int(properties.get("version", "0"))
        if version not in (0, 1):
            raise ValueError(f"version {version} where 0 and 1 are known")
        cluster_id = properties["cluster.id"] if version else properties.get("cluster.id", "")
        if _NO_CLUSTER_ID.search(cluster_id):
            raise ValueError(f"{cluster_id!r} is no cluster.id")
        directory_id = properties.get("directory.id")
        if directory_id is None and (others := properties.keys() - _KEYS):
            # With a new id this directory would count as another replica.
            raise ValueError(f"it has no directory.id, but {min(others)!r}")
        return cls(
            cluster_id=cluster_id,
            node_id=NodeId(properties[_node_key(version)]),
            directory_id=NIL_UUID if directory_id is None else uuid_from_text(directory_id),
            version=version,
        )

    @property
    def has_directory_id(self) -> bool:
        return self.directory_id != NIL_UUID

    def with_directory_id(self) -> MetaProperties:
        """Returns a copy with a new directory id."""
        return replace(self, directory_id=new_directory_id())

    def save(self, directory: Path, files: Files = REAL_FILES) -> None:
        """Writes the file atomically. Blocks; raises OSError."""
        lines = {
            "version": str(self.version),
            "cluster.id": self.cluster_id,
            _node_key(self.version): str(self.node_id),
            "directory.id": uuid_to_text(self.directory_id),
        }
        text = javaproperties.dumps(lines, timestamp=False).encode()
        checksum = b"#crc32c %08x\n" % crc32c.crc32c(text)
        write_atomically(directory / FILE_NAME, checksum + text, files)

    def check(self, directory: Path, *, cluster_id: str | None, node_id: NodeId | None) -> None:
        """Raises MetaPropertiesError when the directory belongs to another cluster or node."""
        for name, ours, wanted in (
            ("cluster", self.cluster_id, cluster_id),
            ("node", self.node_id, node_id),
        ):
            if wanted is not None and ours != wanted:
                raise MetaPropertiesError(
                    f"{directory} belongs to {name} {ours}, this process is of {name} {wanted}"
                )


def new_directory_id() -> bytes:
    """Returns a random id that is not reserved and that in text form does not look like an option (like Kafka's
    `Uuid.randomUuid`).
    """
    while True:
        found = uuid4().bytes
        if found >= RESERVED_END and not uuid_to_text(found).startswith("-"):
            return found


def _node_key(version: int) -> str:
    return "node.id" if version else "broker.id"

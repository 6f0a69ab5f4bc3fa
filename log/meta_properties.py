"""`meta.properties`: whose directory this is.

Source: Kafka's `MetaProperties` version 1 (KIP-858): `cluster.id`, `node.id`, `directory.id`. Version 0 of ZooKeeper times is
refused. Unknown keys are kept out, as Kafka drops them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import javaproperties

from log.atomic_file import write_atomically
from log.files import REAL_FILES, Files
from wire.primitives import uuid_from_text, uuid_to_text

FILE_NAME = "meta.properties"


class MetaPropertiesError(Exception):
    """The file is missing, damaged, or of another cluster or node; the message says which."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """Identity of a log directory; `directory_id` is a UUID of 16 bytes."""

    cluster_id: str
    node_id: int
    directory_id: bytes
    version: int = 1

    @classmethod
    def load(cls, directory: Path, files: Files = REAL_FILES) -> MetaProperties:
        path = directory / FILE_NAME
        try:
            text = files.read_bytes(path).decode()
        except FileNotFoundError:
            raise MetaPropertiesError(
                f"{path} is missing: the directory is not formatted"
            ) from None
        except UnicodeDecodeError as error:
            raise MetaPropertiesError(f"{path}: {error}") from None
        try:
            properties = javaproperties.loads(text)
            if properties.get("version") != "1":
                raise ValueError(f"version {properties.get('version')} where 1 is read")
            return cls(
                cluster_id=properties["cluster.id"],
                node_id=int(properties["node.id"]),
                directory_id=uuid_from_text(properties["directory.id"]),
            )
        except KeyError as error:
            raise MetaPropertiesError(f"{path} has no {error.args[0]}") from None
        except ValueError as error:
            raise MetaPropertiesError(f"{path}: {error}") from None

    def save(self, directory: Path, files: Files = REAL_FILES) -> None:
        """Writes the file atomically. Blocks; raises OSError."""
        lines = {
            "version": str(self.version),
            "cluster.id": self.cluster_id,
            "node.id": str(self.node_id),
            "directory.id": uuid_to_text(self.directory_id),
        }
        text = javaproperties.dumps(lines, timestamp=False)
        write_atomically(directory / FILE_NAME, text.encode(), files)

    def check(self, directory: Path, *, cluster_id: str | None, node_id: int | None) -> None:
        """Raises MetaPropertiesError when the directory belongs to another cluster or node."""
        for name, ours, wanted in (
            ("cluster", self.cluster_id, cluster_id),
            ("node", self.node_id, node_id),
        ):
            if wanted is not None and ours != wanted:
                raise MetaPropertiesError(
                    f"{directory} belongs to {name} {ours}, this process is of {name} {wanted}"
                )

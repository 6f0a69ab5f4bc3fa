"""The common base of the sections of configs: a znode of keys, some of which may be foreign. Pure.

A key that is not mirrored (a secret beside quotas) is never deleted: it is kept when the other keys are written, and a
znode with only unmirrored keys may stay. So the znode is read right before it is written, and written at the version
that was read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace

from trimaran.zkcompat.sections.notes import config_note
from trimaran.zkcompat.sections.section import Section
from trimaran.zkcompat.tree.operations import FoundZnode, Keeps, OperationKind, TreeOperation
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.json_form import decode_or_none


class ConfigSection(Section):
    """A missing config znode and one without keys mean the same; each change gets a note in `/config/changes`."""

    @abstractmethod
    def is_foreign(self, key: str) -> bool:
        """True for a key that is not mirrored."""

    def keeps(self) -> Keeps | None:
        return self.is_foreign

    def notes(self, path: str) -> Iterable[TreeOperation]:
        return () if path.endswith("/clients") else (config_note(path),)

    def same(self, path: str, expected: bytes | None, found: bytes | None) -> bool:
        if (expected or b"") == (found or b""):
            return True
        wanted, actual = self._mirrored(expected), self._mirrored(found)
        return wanted is not None and wanted == actual

    def spares(self, path: str, data: bytes | None) -> bool:
        return self._mirrored(data) == {}

    def _mirrored(self, data: bytes | None) -> dict[str, str] | None:
        """Returns the mirrored keys of a znode; None if its data is not a config."""
        if not data:
            return {}
        found = decode_or_none(EntityConfig.decode, data)
        if found is None:
            return None
        return {key: value for key, value in found.config.items() if not self.is_foreign(key)}


def resolve(operation: TreeOperation, found: FoundZnode | None) -> TreeOperation:
    """Returns the operation adapted to the znode as it was just read: foreign keys are kept."""
    if operation.keeps is None or found is None:
        return operation
    known = decode_or_none(EntityConfig.decode, found.data)
    config = known.config if known is not None else {}
    kept = {key: value for key, value in config.items() if operation.keeps(key)}
    if operation.kind is OperationKind.DELETE and not kept:
        return replace(operation, version=found.version)
    return replace(
        operation, kind=OperationKind.SET, data=_merged(operation.data, kept), version=found.version
    )


def _merged(data: bytes | None, kept: dict[str, str]) -> bytes | None:
    if not kept:
        return data
    own = EntityConfig.decode(data).config if data else {}
    return EntityConfig({**own, **kept}).encode()

"""Config znodes with keys of others in them: what is written keeps those keys. Pure.

A credential that an administrator's tool put beside quotas is not the mirror's to delete. So the znode is read right
before it is written, and written at the version that was read.
"""

from __future__ import annotations

from dataclasses import replace

from trimaran.zkcompat.operations import Kind, Operation
from trimaran.zkcompat.tree import FoundZnode
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.fields import decode_or_none


def resolve(operation: Operation, found: FoundZnode | None) -> Operation:
    """The operation for the znode as it was just read."""
    if operation.keeps is None or found is None:
        return operation
    known = decode_or_none(EntityConfig.decode, found.data)
    config = known.config if known is not None else {}
    kept = {key: value for key, value in config.items() if operation.keeps(key)}
    if operation.kind is Kind.DELETE and not kept:
        return replace(operation, version=found.version)
    return replace(
        operation, kind=Kind.SET, data=_merged(operation.data, kept), version=found.version
    )


def _merged(data: bytes | None, kept: dict[str, str]) -> bytes | None:
    if not kept:
        return data
    own = EntityConfig.decode(data).config if data else {}
    return EntityConfig({**own, **kept}).encode()

"""Three-way merge: a tool's change to an entity's znode while no mirror led, applied to the entity of the newest image.
Pure.

A tool writes the whole znode: the data that it read, with its change. So besides the change, the znode may lack a key
that the quorum has set since, or contain a credential that the quorum has revoked. The image that the tree showed
before distinguishes these cases.
"""

from __future__ import annotations

from collections.abc import Mapping

from trimaran.wire.errors import RemoteProtocolError
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.znodes.acl_entries import AclEntries
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.scram_credential import SCRAM_KEYS, parse_scram_text, scram_text

_MECHANISMS = {key: mechanism for mechanism, key in SCRAM_KEYS.items()}


def three_way_merge(
    kind: RequestKind, data: bytes | None, before: bytes | None, now: bytes | None
) -> bytes | None:
    """Returns the znode as the tool would have written it now; `before` is the data that it read. Unreadable data is
    returned unchanged.

    `kind` is CONFIG or ACL; no data means that the entity does not exist.
    """
    if kind is RequestKind.ACL:
        return _merged_acls(data, before, now)
    try:
        wanted, seen, shown = (_config(version) for version in (data, before, now))
    except RemoteProtocolError:
        return data
    changed = {
        key
        for key in wanted.keys() | seen.keys()
        if _plain(key, wanted.get(key)) != _plain(key, seen.get(key))
    }
    kept = {key: value for key, value in shown.items() if key not in changed}
    return EntityConfig({**kept, **{key: wanted[key] for key in changed if key in wanted}}).encode()


def _merged_acls(data: bytes | None, before: bytes | None, now: bytes | None) -> bytes | None:
    try:
        wanted, seen, shown = (
            AclEntries.decode(version).entries if version else frozenset()
            for version in (data, before, now)
        )
    except RemoteProtocolError:
        return data
    return AclEntries((shown | (wanted - seen)) - (seen - wanted)).encode()


def _config(data: bytes | None) -> Mapping[str, str]:
    return EntityConfig.decode(data).config if data else {}


def _plain(key: str, value: str | None) -> str | None:
    """Returns a credential in the mirror's form: a tool may write its parts in any order."""
    if value is None or key not in _MECHANISMS:
        return value
    try:
        return scram_text(parse_scram_text("", _MECHANISMS[key], value))
    except RemoteProtocolError:
        return value

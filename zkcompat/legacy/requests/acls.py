"""`/kafka-acl/TYPE/NAME` and `/kafka-acl-extended/prefixed/TYPE/NAME`, which kafka-acls rewrites completely, with a
note.

ACLs that differ from the image are created and deleted. Source: `AclAuthorizer` of Kafka 2.8, `SimpleAclAuthorizer` of
1.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.errors import ErrorCode, RemoteProtocolError
from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from trimaran.wire.security.acls import PatternType
from trimaran.zkcompat.legacy.requests.admin_requests import (
    AdminRequest,
    QuorumRequest,
    RequestKind,
    portions,
    refusal,
)
from trimaran.zkcompat.sections.acls import AclSection
from trimaran.zkcompat.znodes.acl_change import AclChangeNote
from trimaran.zkcompat.znodes.acl_entries import RESOURCE_WORDS, AclEntries, AclEntry, AclResource

# The names of all versions of Kafka: TRANSACTIONAL_ID in notes from 2.0 on, TransactionalId before.
_TYPES = {word.upper(): kind for kind, word in RESOURCE_WORDS.items()}


def resource_of_note(data: bytes | None, *, prefixed: bool) -> AclResource | None:
    """Returns the resource of a note; None if the note is malformed."""
    try:
        change = AclChangeNote.decode(data, prefixed=prefixed)
    except RemoteProtocolError:
        return None
    kind = _TYPES.get(change.resource_type.replace("_", "").upper())
    if kind is None or "/" in change.name or change.name in ("", ".", ".."):
        return None
    return AclResource(kind, change.name, prefixed)


def decide(
    resource: AclResource, data: bytes | None, image: MetadataImage, section: AclSection
) -> AdminRequest | None:
    """Returns the request of a resource's znode; None if it equals the image. A missing znode means no ACLs."""
    path = resource.path
    description = f"alter the ACLs of {RESOURCE_WORDS[resource.type]} {resource.name}"
    known = _shown(path, image, section)
    try:
        wanted = AclEntries.decode(data).entries if data else frozenset()
    except RemoteProtocolError as error:
        return AdminRequest(
            RequestKind.ACL, description, refused=[f"{description}: {error}"], entities=[path]
        )
    if wanted == known:
        return None
    # Additions come first: denying too little for a moment would be worse than denying too much.
    quorum_requests = [_create(resource, part) for part in portions(sorted(wanted - known))]
    quorum_requests += [_delete(resource, part) for part in portions(sorted(known - wanted))]
    return AdminRequest(
        RequestKind.ACL,
        description,
        quorum_requests=quorum_requests,
        entities=[path],
    )


def _shown(path: str, image: MetadataImage, section: AclSection) -> frozenset[AclEntry]:
    znode = dict(section.znodes(path, image)).get(path)
    return AclEntries.decode(znode.data).entries if znode is not None else frozenset()


def _create(resource: AclResource, entries: Iterable[AclEntry]) -> QuorumRequest:
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=resource.type,
                resource_name=resource.name,
                resource_pattern_type=_pattern(resource),
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for entry in entries
        ]
    )
    return QuorumRequest(
        request, lambda response: _refusals("create an ACL", resource, response.results)
    )


def _delete(resource: AclResource, entries: Iterable[AclEntry]) -> QuorumRequest:
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=resource.type,
                resource_name_filter=resource.name,
                pattern_type_filter=_pattern(resource),
                principal_filter=entry.principal,
                host_filter=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for entry in entries
        ]
    )
    return QuorumRequest(
        request, lambda response: _refusals("delete an ACL", resource, response.filter_results)
    )


def _pattern(resource: AclResource) -> PatternType:
    return PatternType.PREFIXED if resource.prefixed else PatternType.LITERAL


def _refusals(description: str, resource: AclResource, results: Iterable[Any]) -> list[str]:
    said: list[str] = []
    for result in results:
        where = f"{description} of {RESOURCE_WORDS[resource.type]} {resource.name}"
        said += refusal(where, result.error_code, result.error_message, ErrorCode.NONE)
    return said

"""Decides CreateAcls and DeleteAcls. Source: Kafka's `AclControlManager`, `AclApis`; KIP-801.

An ACL has a random id, but equality is by content: creating an existing ACL succeeds without a record.
"""

from __future__ import annotations

from collections.abc import Callable

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps, pieces
from trimaran.quorum.controller.partitions.topics import RECORDS_MAX
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.acls import Acl, check_filter, known, matches
from trimaran.quorum.metadata.image import AclsImage, MetadataImage
from trimaran.wire.buffers.response_size import RESPONSE_BYTES_MAX, ResponseTooLarge
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from trimaran.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from trimaran.wire.records.security import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from trimaran.wire.schema import Message
from trimaran.wire.security.acls import (
    CLUSTER_NAME,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from trimaran.wire.text.hosts import network_in

# The number of ACLs that a filter is matched against in one step, about 20 µs.
MATCHED_PER_STEP = 20


def fail_create(request: CreateAclsRequest, code: ErrorCode, message: str) -> CreateAclsResponse:
    """Returns the response for a request that could not be decided at all."""
    results = [AclCreationResult(error_code=code, error_message=message) for _ in request.creations]
    return CreateAclsResponse(results=results)


def fail_delete(request: DeleteAclsRequest, code: ErrorCode, message: str) -> DeleteAclsResponse:
    """Returns the same response for filters."""
    return DeleteAclsResponse(filter_results=[_failed(code, message) for _ in request.filters])


def create_acls(
    request: CreateAclsRequest, image: MetadataImage, new_id: Callable[[], bytes]
) -> Steps[Result[Message, CreateAclsResponse]]:
    """Creates ACLs, with a result for each creation, in order; one step for each ACL. `new_id` returns random ids.

    Raises:
        KafkaError: POLICY_VIOLATION if there are too many; none is created.
    """
    acls, metadata_version = image.acls, image.features.metadata_version
    present = set()
    for record in acls.values():
        present.add(Acl.of(record))
        yield 1
    taken = set(acls)
    records: list[Message] = []
    results = []
    for creation in request.creations:
        yield 1
        acl = _acl(creation)
        try:
            _check(acl, metadata_version)
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
            continue
        results.append(AclCreationResult())
        if acl not in present:
            present.add(acl)
            acl_id = _unused(new_id, taken)
            taken.add(acl_id)
            records.append(_record(acl_id, acl))
    if len(records) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
    return Result(records, CreateAclsResponse(results=results))


def delete_acls(
    request: DeleteAclsRequest, acls: AclsImage
) -> Steps[Result[Message, DeleteAclsResponse]]:
    """Deletes the ACLs that match each filter, in steps of the ACLs that a filter is matched against.

    The result of a filter lists its matches; an ACL that matches several filters is removed once. A repeated filter has
    the same result again, because clients match results to filters by position.

    Raises:
        KafkaError: INVALID_REQUEST if the filters match too many ACLs; POLICY_VIOLATION if the response would be too
            large; none is removed.
    """
    listed = []
    for acl_id, record in acls.items():
        listed.append((Acl.of(record), acl_id))
        yield 1
    listed.sort()
    removed: dict[bytes, None] = {}
    known: dict[tuple[object, ...], tuple[DeleteAclsFilterResult, int]] = {}
    results = []
    size = 0
    for wanted in request.filters:
        yield 1
        key = _content(wanted)
        if key not in known:
            known[key] = yield from _delete_matching(wanted, listed, removed)
        results.append(known[key][0])
        size += known[key][1]
        if size > RESPONSE_BYTES_MAX:
            raise ResponseTooLarge
    records = [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed]
    return Result(records, DeleteAclsResponse(filter_results=results))


def _delete_matching(
    wanted: DeleteAclsFilter, listed: list[tuple[Acl, bytes]], removed: dict[bytes, None]
) -> Steps[tuple[DeleteAclsFilterResult, int]]:
    """Returns the result of a filter and an upper bound of its size in bytes; adds the ids of matching ACLs to
    `removed`.
    """
    try:
        check_filter(wanted)
    except KafkaError as error:
        return _failed(error.code, error.message), 0
    result, size = DeleteAclsFilterResult(matching_acls=[]), 0
    for batch in pieces(listed, MATCHED_PER_STEP):
        for acl, acl_id in batch:
            if matches(wanted, acl):
                result.matching_acls.append(_matching(acl))
                removed[acl_id] = None
                size += _size(acl)
        yield 1
    if len(removed) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation.",
        )
    return result, size


def _content(wanted: DeleteAclsFilter) -> tuple[object, ...]:
    return tuple(getattr(wanted, field.name) for field in wanted.__fields__)


def _size(acl: Acl) -> int:
    """Returns an upper bound of the ACL's bytes in the response: three names and some numbers."""
    names = acl.resource_name, acl.principal, acl.host
    return sum(len(name.encode()) for name in names) + 24


def _acl(creation: AclCreation) -> Acl:
    return Acl(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def _why_invalid(acl: Acl) -> str | None:
    resource_type = known(ResourceType, acl.resource_type)
    pattern_type = known(PatternType, acl.pattern_type)
    operation = known(Operation, acl.operation)
    permission = known(Permission, acl.permission)
    if resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not acl.resource_name:
        return "Invalid empty resource name"
    if resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"Invalid resourceType {resource_type.name}"
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"Invalid patternType {pattern_type.name}"
    if operation in (Operation.UNKNOWN, Operation.ANY):
        return f"Invalid operation {operation.name}"
    if permission not in (Permission.DENY, Permission.ALLOW):
        return f"Invalid permissionType {permission.name}"
    if ":" not in acl.principal:
        return (
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the "
            "principal type from the principal name)"
        )
    if not acl.host:
        return "Host pattern cannot be null or empty"
    return None


def _check(acl: Acl, metadata_version: int) -> None:
    """Raises KafkaError INVALID_REQUEST; UNSUPPORTED_VERSION for a network if the cluster's metadata.version does not
    support networks.
    """
    if (why := _why_invalid(acl)) is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, why)
    if "/" not in acl.host:
        return
    if metadata_version < versions.CIDR_ACLS:
        name = versions.release_name(versions.CIDR_ACLS)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"CIDR-based ACL host patterns require metadata version {name} or higher.",
        )
    if network_in(acl.host) is None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid CIDR notation '{acl.host}'")


def _unused(new_id: Callable[[], bytes], taken: set[bytes]) -> bytes:
    while (acl_id := new_id()) in taken:
        pass
    return acl_id


def _record(acl_id: bytes, acl: Acl) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _failed(code: ErrorCode, message: str) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])

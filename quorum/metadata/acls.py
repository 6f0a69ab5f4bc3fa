"""ACLs: how filters match them, and their form in DescribeAcls (29).

Source: Kafka's `ResourcePatternFilter`, `AccessControlEntryFilter`; KIP-290. Shared by brokers and controllers. See
`authorizer` for authorization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from itertools import groupby
from typing import NamedTuple, TypeVar

from trimaran.quorum.metadata.image import AclsImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.delete_acls import DeleteAclsFilter
from trimaran.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
)
from trimaran.wire.records.security import AccessControlEntryRecord
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

WILDCARD = "*"

E = TypeVar("E", bound=IntEnum)


def known(kind: type[E], number: int) -> E:
    """Returns the enum member of the number; UNKNOWN if only a later Kafka version has one."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


class Acl(NamedTuple):
    """The content of one ACL, without its id; ACLs with equal content are equal."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Acl:
        return cls(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )


def check_filter(wanted: DeleteAclsFilter | DescribeAclsRequest) -> None:
    """Raises KafkaError INVALID_REQUEST if the filter has an unknown or invalid value."""
    pattern = (
        known(ResourceType, wanted.resource_type_filter),
        known(PatternType, wanted.pattern_type_filter),
    )
    if not all(pattern):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown patternFilter.")
    entry = known(Operation, wanted.operation), known(Permission, wanted.permission_type)
    if not all(entry):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Unknown entryFilter.")


def matches(wanted: DeleteAclsFilter | DescribeAclsRequest, acl: Acl) -> bool:
    """Returns whether a filter that `check_filter` accepted matches `acl`; None and ANY match every value."""
    return (
        wanted.resource_type_filter in (ResourceType.ANY, acl.resource_type)
        and _matches_name(wanted.pattern_type_filter, wanted.resource_name_filter, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (Operation.ANY, acl.operation)
        and wanted.permission_type in (Permission.ANY, acl.permission)
    )


def _matches_name(pattern_type: int, name: str | None, acl: Acl) -> bool:
    if pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if pattern_type != PatternType.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def matching(wanted: DescribeAclsRequest, acls: AclsImage) -> list[Acl]:
    """Returns the matching ACLs in sorted order.

    Raises:
        KafkaError: INVALID_REQUEST if the filter has an unknown or invalid value.
    """
    check_filter(wanted)
    found = []
    for record in acls.values():
        acl = Acl.of(record)
        if matches(wanted, acl):
            found.append(acl)
    found.sort()
    return found


def by_resource(
    acls: Iterable[Acl],
) -> Iterator[tuple[DescribeAclsResource, Iterator[AclDescription]]]:
    """Yields the resources of the ACLs in order, each with its ACLs."""
    for _, some in groupby(acls, key=lambda acl: acl[:3]):
        same = list(some)
        first = same[0]
        resource = DescribeAclsResource(
            resource_type=first.resource_type,
            resource_name=first.resource_name,
            pattern_type=first.pattern_type,
            acls=[],
        )
        yield resource, map(_described, same)


def _described(acl: Acl) -> AclDescription:
    return AclDescription(
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )

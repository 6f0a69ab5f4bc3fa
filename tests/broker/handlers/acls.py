"""ACLs for tests: one ACL, and a filter that matches all."""

from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from trimaran.wire.messages.describe_acls import DescribeAclsRequest

ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


ALTER_CONFIGS = 11


def creation(
    name: str = "orders", principal: str = "User:alice", operation: int = ALTER_CONFIGS
) -> CreateAclsRequest:
    """Returns an ACL that denies `principal` the `operation` on the topic."""
    acl = AclCreation(
        resource_type=2,
        resource_name=name,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=3,
    )
    return CreateAclsRequest(creations=[acl])


def description() -> DescribeAclsRequest:
    return DescribeAclsRequest(**ANY)


def deletion() -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=[DeleteAclsFilter(**ANY)])

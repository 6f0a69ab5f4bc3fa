import pytest

from tests.zkcompat import build
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.create_acls import AclCreationResult, CreateAclsResponse
from trimaran.wire.records.security import AccessControlEntryRecord
from trimaran.wire.security.acls import Operation, Permission, ResourceType
from trimaran.zkcompat.legacy.requests.acls import decide, resource_of_note
from trimaran.zkcompat.sections.acls import AclSection
from trimaran.zkcompat.znodes.acl_entries import AclEntries, AclEntry, AclResource

ALICE = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
BOB = AclEntry("User:bob", "10.0.0.1", Operation.WRITE, Permission.DENY)
ORDERS = AclResource(ResourceType.TOPIC, "orders", prefixed=False)
# As kafka-acls of 1.1 writes it.
ALICES = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read",'
    b'"host":"*"}]}'
)


def image_of(*entries):
    return build.image_of(
        *[
            AccessControlEntryRecord(
                id=bytes([number]) * 16,
                resource_type=ResourceType.TOPIC,
                resource_name="orders",
                pattern_type=3,
                principal=entry.principal,
                host=entry.host,
                operation=entry.operation,
                permission_type=entry.permission,
            )
            for number, entry in enumerate(entries, 1)
        ]
    )


def order_of(data, *entries):
    return decide(ORDERS, data, image_of(*entries), AclSection())


@pytest.mark.parametrize(
    ("data", "prefixed", "path"),
    [
        (b"Topic:orders", False, "/kafka-acl/Topic/orders"),
        (b"TOPIC:orders", False, "/kafka-acl/Topic/orders"),
        (b"TransactionalId:t:1", False, "/kafka-acl/TransactionalId/t:1"),
        (b"TRANSACTIONAL_ID:t", False, "/kafka-acl/TransactionalId/t"),
        (b"Cluster:kafka-cluster", False, "/kafka-acl/Cluster/kafka-cluster"),
        (b'{"version":1,"resourceType":"TOPIC","name":"pay","patternType":"PREFIXED"}', True,
         "/kafka-acl-extended/prefixed/Topic/pay"),
    ],
)  # fmt: skip
def test_notes_of_every_version_are_read(data, prefixed, path):
    assert resource_of_note(data, prefixed=prefixed).path == path


@pytest.mark.parametrize("data", [None, b"", b"orders", b"Planet:earth", b"Topic:", b"Topic:a/b"])
def test_invalid_notes_name_no_resource(data):
    assert resource_of_note(data, prefixed=False) is None
    assert resource_of_note(data, prefixed=True) is None


def test_acls_are_created_before_others_are_deleted():
    request = order_of(ALICES, BOB)
    create, delete = request.quorum_requests
    (one,) = create.request.creations
    assert (one.resource_type, one.resource_name, one.resource_pattern_type) == (2, "orders", 3)
    assert (one.principal, one.host, one.operation, one.permission_type) == (
        "User:alice",
        "*",
        3,
        3,
    )
    (gone,) = delete.request.filters
    assert (gone.principal_filter, gone.host_filter) == ("User:bob", "10.0.0.1")
    assert (gone.operation, gone.permission_type, gone.pattern_type_filter) == (4, 2, 3)
    assert request.entities == [ORDERS.path]


def test_znode_equal_to_image_needs_no_request():
    assert order_of(ALICES, ALICE) is None
    assert order_of(None) is None
    assert order_of(AclEntries(frozenset([BOB, ALICE])).encode(), ALICE, BOB) is None


def test_missing_znode_means_no_acls():
    (quorum_request,) = order_of(None, ALICE, BOB).quorum_requests
    assert len(quorum_request.request.filters) == 2


def test_invalid_request_deletes_nothing():
    for data in (b"x", b"{}", b'{"acls":[{}]}', ALICES.replace(b"Read", b"Fly")):
        request = order_of(data, ALICE)
        assert not request.quorum_requests
        assert request.refused


def test_error_codes_become_refusals():
    (quorum_request,) = order_of(ALICES).quorum_requests
    refused = AclCreationResult(
        error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured."
    )
    assert quorum_request.refusals(CreateAclsResponse(results=[refused])) == [
        "create an ACL of Topic orders: SECURITY_DISABLED: No Authorizer is configured."
    ]

"""ACLs that would protect nothing are refused."""

from node.config.security_keys import STANDARD_AUTHORIZER
from quorum.serving.authorization import OPEN_DATA
from tests.cluster.in_process import cluster, connected_to
from tests.cluster.nodes import SECONDS
from wire.errors import ErrorCode
from wire.messages.create_acls import AclCreation, CreateAclsRequest
from wire.security.acls import Operation, ResourceType

NOBODY = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    OPEN_DATA: "true",
    "super_users": "User:admin",
}


def acl(resource_type, operation, name="t"):
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        principal="User:bob",
        host="*",
        operation=operation,
        permission_type=3,
    )


async def test_acls_about_what_nobody_judges_are_refused(tmp_path):
    keys = {**NOBODY, "super_users": "User:ANONYMOUS"}
    async with (
        cluster(tmp_path, brokers=0, **keys) as nodes,
        connected_to(await nodes.active()) as connection,
    ):
        wanted = [
            acl(ResourceType.TOPIC, Operation.READ),
            acl(ResourceType.CLUSTER, Operation.ALTER, "kafka-cluster"),
            acl(ResourceType.GROUP, Operation.ALL),
            acl(ResourceType.TRANSACTIONAL_ID, Operation.WRITE),
            acl(ResourceType.TOPIC, Operation.ALTER_CONFIGS),
            acl(ResourceType.CLUSTER, Operation.CREATE, "kafka-cluster"),
            acl(ResourceType.TOPIC, Operation.ANY),
        ]
        response = await connection.call(CreateAclsRequest(creations=wanted), timeout=SECONDS)
        codes = [one.error_code for one in response.results]
        bad = ErrorCode.INVALID_REQUEST
        assert codes == [bad, 0, bad, bad, 0, bad, bad]
        assert "this ACL would protect nothing" in response.results[0].error_message
        assert response.results[-1].error_message == "Invalid operation ANY"

"""ElectLeaders on the controller."""

from types import SimpleNamespace

import pytest

from tests.broker.calls import call, finished
from tests.broker.handlers.test_elect_leaders import codes_of, election
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.quorum.controller.handlers.elect_leaders import elect_leaders
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import AclIndex, Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.elect_leaders import ElectLeadersResponse
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

UNCLEAN = 1


async def test_preferred_replica_leads_again(tmp_path):
    async with controller_client(tmp_path, auto_leader_rebalance_enable="false") as one:
        first, _second = await one.join(1, 2)
        await one.create("t", [1, 2])
        await first.beat(want_fence=True)
        assert one.partition().leader == 2
        assert codes_of(await one.call(election(0))) == {
            ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        }
        await first.beat()
        assert codes_of(await one.call(election(0, 1))) == {
            ("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,  # not in the ISR yet
            ("t", 1): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }


async def test_unclean_election_applies_only_to_leaderless_partitions(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        answer = await one.call(election(0).replace(election_type=UNCLEAN))
        assert codes_of(answer) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}


async def test_unauthorized_election_error_is_placed_by_version(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        for version, at_top in ((0, 0), (1, code), (2, code)):
            answer = await one.call(election(0), version)
            assert (answer.error_code, codes_of(answer)) == (at_top, {("t", 0): code})


def answered(_elect):
    """A controller that accepts everything."""
    yield None
    return ElectLeadersResponse(replica_election_results=[])


@pytest.mark.parametrize("operation", [Operation.ALTER, Operation.DESCRIBE, Operation.CREATE])
async def test_only_alter_on_cluster_permits_elections(operation):
    cluster = (ResourceType.CLUSTER, "kafka-cluster", PatternType.LITERAL)
    authorizer = Authorizer()
    authorizer._index = AclIndex.of([Acl(*cluster, "User:*", "*", operation, Permission.ALLOW)])
    authorizer.complete_initial_load()
    context = SimpleNamespace(authorizer=authorizer, controller=SimpleNamespace(submit=answered))
    response = await finished(elect_leaders(election(0), context, call(election(0), 2)))
    allowed = operation is Operation.ALTER
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert codes_of(response) == ({} if allowed else {("t", 0): code})
    assert response.error_code == (ErrorCode.NONE if allowed else code)

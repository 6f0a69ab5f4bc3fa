"""Every decision about many items yields for each of them, whichever array is long, so that its turn may end there."""

import inspect

import pytest

from tests.broker.large_requests import array_paths, large_request
from tests.quorum.controller.nodes.test_directories import IMAGE
from tests.quorum.controller.states import state_of
from tests.quorum.metadata.build import uid
from trimaran.quorum.controller.configs.alter_client_quotas import alter_client_quotas
from trimaran.quorum.controller.configs.configs import alter_configs, replace_configs
from trimaran.quorum.controller.nodes.directories import assign_replicas
from trimaran.quorum.controller.partitions.alter_partition import alter_partition
from trimaran.quorum.controller.partitions.elections import elect_leaders
from trimaran.quorum.controller.partitions.reassignments import alter_reassignments
from trimaran.quorum.controller.partitions.topics import delete_topics
from trimaran.quorum.controller.security.acls import create_acls, delete_acls
from trimaran.quorum.controller.security.scram import alter_scram_credentials
from trimaran.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from trimaran.wire.messages.alter_configs import AlterConfigsRequest
from trimaran.wire.messages.alter_partition import AlterPartitionRequest
from trimaran.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from trimaran.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from trimaran.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from trimaran.wire.messages.create_acls import CreateAclsRequest
from trimaran.wire.messages.delete_acls import DeleteAclsRequest
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest
from trimaran.wire.messages.elect_leaders import ElectLeadersRequest
from trimaran.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

COUNT = 50
STATE = state_of(IMAGE)
DECISIONS = {
    AlterClientQuotasRequest: lambda request: alter_client_quotas(request, IMAGE.quotas),
    AlterConfigsRequest: lambda request: replace_configs(request, IMAGE),
    AlterPartitionRequest: lambda request: alter_partition(request, STATE),
    AlterPartitionReassignmentsRequest: lambda request: alter_reassignments(request, STATE),
    AlterUserScramCredentialsRequest: lambda request: alter_scram_credentials(request, IMAGE),
    AssignReplicasToDirsRequest: lambda request: assign_replicas(request, STATE),
    CreateAclsRequest: lambda request: create_acls(request, IMAGE, lambda: uid(1)),
    DeleteAclsRequest: lambda request: delete_acls(request, IMAGE.acls),
    DeleteTopicsRequest: lambda request: delete_topics(request, IMAGE, enabled=True, version=6),
    ElectLeadersRequest: lambda request: elect_leaders(request, STATE),
    IncrementalAlterConfigsRequest: lambda request: alter_configs(request, IMAGE),
}
# Parts of one partition, resource or entity, examined together with it.
OF_ONE = {"replicas", "new_isr_with_epochs", "new_isr", "configs", "entity", "ops"}
CASES = [
    (request, path)
    for request in DECISIONS
    for path in array_paths(request, request.VERSIONS.high)
    if path[-1] not in OF_ONE
]


@pytest.mark.parametrize(("cls", "path"), CASES)
def test_each_item_is_a_separate_step(cls, path):
    request = large_request(cls, cls.VERSIONS.high, path, COUNT)
    if hasattr(request, "broker_id"):
        request.broker_id, request.broker_epoch = 1, IMAGE.cluster.brokers[1].epoch
    steps = DECISIONS[cls](request)
    assert inspect.isgenerator(steps)
    taken = list(steps)
    assert sum(taken) >= COUNT
    assert max(taken) == 1

"""What a controller asks of an authorizer before it answers: the operation on the cluster that a request needs.

As Kafka's `ControllerApis`. What is decided for each topic, config or token is asked by its handler (so are elections);
the rest of what a client may ask here, creation, growth and deletion of topics, is not judged yet.
"""

from __future__ import annotations

from quorum.metadata.acls import Operation
from quorum.serving.authorization import needs
from wire.messages.add_raft_voter import AddRaftVoterRequest
from wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from wire.messages.alter_client_quotas import AlterClientQuotasRequest
from wire.messages.alter_partition import AlterPartitionRequest
from wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from wire.messages.broker_registration import BrokerRegistrationRequest
from wire.messages.controller_registration import ControllerRegistrationRequest
from wire.messages.create_acls import CreateAclsRequest
from wire.messages.delete_acls import DeleteAclsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.describe_cluster import DescribeClusterRequest
from wire.messages.describe_quorum import DescribeQuorumRequest
from wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from wire.messages.envelope import EnvelopeRequest
from wire.messages.fetch import FetchRequest
from wire.messages.fetch_snapshot import FetchSnapshotRequest
from wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from wire.messages.unregister_broker import UnregisterBrokerRequest
from wire.messages.update_features import UpdateFeaturesRequest
from wire.messages.update_raft_voter import UpdateRaftVoterRequest
from wire.messages.vote import VoteRequest
from wire.schema import Message
from wire.transport.registry import Guard

# What only brokers and controllers ask of a controller.
_OF_NODES: tuple[type[Message], ...] = (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    AssignReplicasToDirsRequest,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    ControllerRegistrationRequest,
    EndQuorumEpochRequest,
    EnvelopeRequest,
    FetchRequest,
    FetchSnapshotRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)

OPERATIONS: dict[type[Message], Operation] = {
    **dict.fromkeys(_OF_NODES, Operation.CLUSTER_ACTION),
    AddRaftVoterRequest: Operation.ALTER,
    AlterClientQuotasRequest: Operation.ALTER_CONFIGS,
    AlterPartitionReassignmentsRequest: Operation.ALTER,
    AlterUserScramCredentialsRequest: Operation.ALTER,
    CreateAclsRequest: Operation.ALTER,
    DeleteAclsRequest: Operation.ALTER,
    DescribeAclsRequest: Operation.DESCRIBE,
    DescribeClusterRequest: Operation.ALTER,  # more than on a broker
    DescribeQuorumRequest: Operation.DESCRIBE,
    ListPartitionReassignmentsRequest: Operation.DESCRIBE,
    RemoveRaftVoterRequest: Operation.ALTER,
    UnregisterBrokerRequest: Operation.ALTER,
    UpdateFeaturesRequest: Operation.ALTER,
}

GUARDS: dict[type[Message], Guard] = {
    request: needs(operation) for request, operation in OPERATIONS.items()
}

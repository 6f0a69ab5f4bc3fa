"""What a broker asks of an authorizer before it answers: the operation on the cluster that a request needs.

As Kafka's `KafkaApis`. What a broker forwards is judged by the controller, with the client's principal; what is decided for each config or
token is asked by its handler. Requests about topics, groups and transactions are not judged yet.
"""

from __future__ import annotations

from quorum.serving.authorization import needs
from wire.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest
from wire.messages.describe_acls import DescribeAclsRequest
from wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from wire.messages.describe_log_dirs import DescribeLogDirsRequest
from wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from wire.messages.list_config_resources import ListConfigResourcesRequest
from wire.messages.write_txn_markers import WriteTxnMarkersRequest
from wire.schema import Message
from wire.security.acls import Operation
from wire.transport.registry import Guard

# Any of them is enough.
OPERATIONS: dict[type[Message], tuple[Operation, ...]] = {
    AlterReplicaLogDirsRequest: (Operation.ALTER,),
    DescribeAclsRequest: (Operation.DESCRIBE,),
    DescribeLogDirsRequest: (Operation.DESCRIBE,),
    DescribeClientQuotasRequest: (Operation.DESCRIBE_CONFIGS,),
    DescribeUserScramCredentialsRequest: (Operation.DESCRIBE,),
    ListConfigResourcesRequest: (Operation.DESCRIBE_CONFIGS,),
    WriteTxnMarkersRequest: (Operation.ALTER, Operation.CLUSTER_ACTION),
}

GUARDS: dict[type[Message], Guard] = {
    request: needs(*operations) for request, operations in OPERATIONS.items()
}

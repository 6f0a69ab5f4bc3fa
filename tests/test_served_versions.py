"""The versions of each API that a node serves: an added or removed version is a decision, and shows here. Those of
Apache Kafka 4.4 are included; brokers also serve the requests of older clients, controllers those of older nodes.
"""

from tests.test_access import REGISTRIES
from trimaran.wire.messages.registry import REQUESTS

SERVED = {
    "Brokers": """
        Produce 0-13
        Fetch 0-18
        ListOffsets 0-11
        Metadata 0-13
        OffsetCommit 1-10
        OffsetFetch 1-10
        FindCoordinator 0-6
        JoinGroup 0-9
        Heartbeat 0-4
        LeaveGroup 0-5
        SyncGroup 0-5
        DescribeGroups 0-6
        ListGroups 0-5
        SaslHandshake 0-1
        ApiVersions 0-5
        CreateTopics 0-7
        DeleteTopics 0-6
        DeleteRecords 0-2
        InitProducerId 0-5
        OffsetForLeaderEpoch 0-4
        AddPartitionsToTxn 0-5
        AddOffsetsToTxn 0-4
        EndTxn 0-5
        WriteTxnMarkers 0-2
        TxnOffsetCommit 0-6
        DescribeAcls 0-3
        CreateAcls 0-3
        DeleteAcls 0-3
        DescribeConfigs 0-4
        AlterConfigs 0-2
        AlterReplicaLogDirs 0-2
        DescribeLogDirs 0-5
        SaslAuthenticate 0-2
        CreatePartitions 0-3
        CreateDelegationToken 0-3
        RenewDelegationToken 0-2
        ExpireDelegationToken 0-2
        DescribeDelegationToken 0-3
        DeleteGroups 0-3
        ElectLeaders 0-2
        IncrementalAlterConfigs 0-1
        AlterPartitionReassignments 0-1
        ListPartitionReassignments 0-0
        OffsetDelete 0-0
        DescribeClientQuotas 0-1
        AlterClientQuotas 0-1
        DescribeUserScramCredentials 0-0
        AlterUserScramCredentials 0-0
        DescribeQuorum 0-2
        UpdateFeatures 0-2
        DescribeCluster 0-2
        DescribeProducers 0-0
        UnregisterBroker 0-0
        DescribeTransactions 0-0
        ListTransactions 0-2
        ConsumerGroupHeartbeat 0-1
        ConsumerGroupDescribe 0-1
        GetTelemetrySubscriptions 0-0
        PushTelemetry 0-0
        ListConfigResources 0-1
        DescribeTopicPartitions 0-0
        ShareGroupHeartbeat 1-1
ShareAcknowledge 1-2
ShareFetch 1-2
        ShareGroupDescribe 1-1
        AddRaftVoter 0-1
        RemoveRaftVoter 0-0
        InitializeShareGroupState 0-0
        ReadShareGroupState 0-0
        WriteShareGroupState 0-1
        DeleteShareGroupState 0-0
        ReadShareGroupStateSummary 0-1
        StreamsGroupHeartbeat 0-1
        StreamsGroupDescribe 0-1
        StreamsGroupTopologyDescriptionUpdate 0-0
        UnregisterController 0-0
        DescribeShareGroupOffsets 0-1
        AlterShareGroupOffsets 0-0
        DeleteShareGroupOffsets 0-0
    """,
    "Controllers": """
        Fetch 12-18
        SaslHandshake 0-1
        ApiVersions 0-5
        CreateTopics 0-7
        DeleteTopics 0-6
        DescribeAcls 0-3
        CreateAcls 0-3
        DeleteAcls 0-3
        DescribeConfigs 1-4
        AlterConfigs 0-2
        SaslAuthenticate 0-2
        CreatePartitions 0-3
        CreateDelegationToken 0-3
        RenewDelegationToken 0-2
        ExpireDelegationToken 0-2
        ElectLeaders 0-2
        IncrementalAlterConfigs 0-1
        AlterPartitionReassignments 0-1
        ListPartitionReassignments 0-0
        AlterClientQuotas 0-1
        AlterUserScramCredentials 0-0
        Vote 0-2
        BeginQuorumEpoch 0-1
        EndQuorumEpoch 0-1
        DescribeQuorum 0-2
        AlterPartition 2-3
        UpdateFeatures 0-2
        Envelope 0-0
        FetchSnapshot 0-1
        DescribeCluster 0-2
        BrokerRegistration 0-4
        BrokerHeartbeat 0-2
        UnregisterBroker 0-0
        AllocateProducerIds 0-0
        ControllerRegistration 0-0
        AssignReplicasToDirs 0-0
        AddRaftVoter 0-1
        RemoveRaftVoter 0-0
        UpdateRaftVoter 0-0
        UnregisterController 0-0
    """,
}


def test_each_node_serves_these_versions_of_each_api():
    for kind, registry in REGISTRIES.items():
        expected = dict(line.split() for line in SERVED[kind].strip().splitlines())
        found = {
            REQUESTS[key].__name__.removesuffix("Request"): f"{served.low}-{served.high}"
            for key, served in registry.api_versions().items()
        }
        assert found == expected, kind

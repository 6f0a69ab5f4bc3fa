"""Where requests name their items, and where responses have the error codes of these items: a line for each place.

    topic_data(topic=name topic_id).partition_data(partition=index) -> responses(topic=name topic_id).partition_…

A level is an array and the roles of the fields of its elements: `topic=name` is the field `name`, `topic_id` is a field
of that name, `*` is the element itself, and `#` is its position. A role has the same name on both sides. If an API has
several lines, a rule uses the first one with all roles that the rule names. A place without a left side, or with a role
that the left side lacks, exists in responses only. Error codes at the top of a response need no line.

Source: the message definitions of Apache Kafka 4.4, and `getErrorResponse` of its request classes.
"""

from __future__ import annotations

LINES = """
Produce topic_data(topic=name topic_id).partition_data(partition=index) \
-> responses(topic=name topic_id).partition_responses(partition=index)
Fetch topics(topic topic_id).partitions(partition) \
-> responses(topic topic_id).partitions(partition=partition_index)
ListOffsets topics(topic=name).partitions(partition=partition_index) \
-> topics(topic=name).partitions(partition=partition_index)
Metadata topics(topic=name topic_id) -> topics(topic=name topic_id)
Metadata topics(topic=name topic_id) -> topics(topic=name topic_id).partitions(partition=partition_index)
LeaderAndIsr ungrouped_partition_states(topic=topic_name partition=partition_index) \
-> partition_errors(topic=topic_name partition=partition_index)
LeaderAndIsr topic_states(topic=topic_name).partition_states(partition=partition_index) \
-> partition_errors(topic=topic_name partition=partition_index)
LeaderAndIsr topic_states(topic=topic_name topic_id).partition_states(partition=partition_index) \
-> topics(topic_id).partition_errors(partition=partition_index)
StopReplica ungrouped_partitions(topic=topic_name partition=partition_index) \
-> partition_errors(topic=topic_name partition=partition_index)
StopReplica topics(topic=name).partition_indexes(partition=*) \
-> partition_errors(topic=topic_name partition=partition_index)
StopReplica topic_states(topic=topic_name).partition_states(partition=partition_index) \
-> partition_errors(topic=topic_name partition=partition_index)
OffsetCommit topics(topic=name topic_id).partitions(partition=partition_index) \
-> topics(topic=name topic_id).partitions(partition=partition_index)
OffsetFetch topics(topic=name).partition_indexes(partition=*) \
-> topics(topic=name).partitions(partition=partition_index)
OffsetFetch groups(group=group_id member=member_id) -> groups(group=group_id)
OffsetFetch groups(group=group_id member=member_id).topics(topic=name topic_id).partition_indexes(partition=*) \
-> groups(group=group_id).topics(topic=name topic_id).partitions(partition=partition_index)
FindCoordinator coordinator_keys(key=*) -> coordinators(key)
LeaveGroup members(member=member_id instance=group_instance_id) \
-> members(member=member_id instance=group_instance_id)
DescribeGroups groups(group=*) -> groups(group=group_id)
CreateTopics topics(topic=name) -> topics(topic=name)
DeleteTopics topics(topic=name topic_id) -> responses(topic=name topic_id)
DeleteTopics topic_names(topic=*) -> responses(topic=name)
DeleteRecords topics(topic=name).partitions(partition=partition_index) \
-> topics(topic=name).partitions(partition=partition_index)
OffsetForLeaderEpoch topics(topic).partitions(partition) -> topics(topic).partitions(partition)
AddPartitionsToTxn v3_and_below_topics(topic=name).partitions(partition=*) \
-> results_by_topic_v3_and_below(topic=name).results_by_partition(partition=partition_index)
AddPartitionsToTxn transactions(transactional_id).topics(topic=name).partitions(partition=*) \
-> results_by_transaction(transactional_id).topic_results(topic=name).results_by_partition(partition=partition_index)
WriteTxnMarkers markers(producer=producer_id).topics(topic=name).partition_indexes(partition=*) \
-> markers(producer=producer_id).topics(topic=name).partitions(partition=partition_index)
TxnOffsetCommit topics(topic=name topic_id).partitions(partition=partition_index) \
-> topics(topic=name topic_id).partitions(partition=partition_index)
CreateAcls creations(#) -> results(#)
DeleteAcls filters(#) -> filter_results(#)
DescribeConfigs resources(kind=resource_type resource=resource_name) \
-> results(kind=resource_type resource=resource_name)
AlterConfigs resources(kind=resource_type resource=resource_name) \
-> responses(kind=resource_type resource=resource_name)
IncrementalAlterConfigs resources(kind=resource_type resource=resource_name) \
-> responses(kind=resource_type resource=resource_name)
AlterReplicaLogDirs dirs(path).topics(topic=name).partitions(partition=*) \
-> results(topic=topic_name).partitions(partition=partition_index)
DescribeLogDirs -> results(path=log_dir)
CreatePartitions topics(topic=name) -> results(topic=name)
DeleteGroups groups_names(group=*) -> results(group=group_id)
ElectLeaders topic_partitions(topic).partitions(partition=*) \
-> replica_election_results(topic).partition_result(partition=partition_id)
AlterPartitionReassignments topics(topic=name).partitions(partition=partition_index) \
-> responses(topic=name).partitions(partition=partition_index)
OffsetDelete topics(topic=name).partitions(partition=partition_index) \
-> topics(topic=name).partitions(partition=partition_index)
AlterClientQuotas entries(entity) -> entries(entity)
DescribeUserScramCredentials users(user=name) -> results(user)
AlterUserScramCredentials deletions(user=name) -> results(user)
AlterUserScramCredentials upsertions(user=name) -> results(user)
Vote topics(topic=topic_name).partitions(partition=partition_index) \
-> topics(topic=topic_name).partitions(partition=partition_index)
BeginQuorumEpoch topics(topic=topic_name).partitions(partition=partition_index) \
-> topics(topic=topic_name).partitions(partition=partition_index)
EndQuorumEpoch topics(topic=topic_name).partitions(partition=partition_index) \
-> topics(topic=topic_name).partitions(partition=partition_index)
DescribeQuorum topics(topic=topic_name).partitions(partition=partition_index) \
-> topics(topic=topic_name).partitions(partition=partition_index)
AlterPartition topics(topic=topic_name topic_id).partitions(partition=partition_index) \
-> topics(topic=topic_name topic_id).partitions(partition=partition_index)
UpdateFeatures feature_updates(feature) -> results(feature)
FetchSnapshot topics(topic=name).partitions(partition) -> topics(topic=name).partitions(partition=index)
DescribeProducers topics(topic=name).partition_indexes(partition=*) \
-> topics(topic=name).partitions(partition=partition_index)
DescribeTransactions transactional_ids(transactional_id=*) -> transaction_states(transactional_id)
ConsumerGroupDescribe group_ids(group=*) -> groups(group=group_id)
ShareGroupDescribe group_ids(group=*) -> groups(group=group_id)
StreamsGroupDescribe group_ids(group=*) -> groups(group=group_id)
AssignReplicasToDirs directories(path=id).topics(topic_id).partitions(partition=partition_index) \
-> directories(path=id).topics(topic_id).partitions(partition=partition_index)
DescribeTopicPartitions topics(topic=name) -> topics(topic=name topic_id)
DescribeTopicPartitions topics(topic=name) -> topics(topic=name topic_id).partitions(partition=partition_index)
ShareFetch topics(topic_id).partitions(partition=partition_index) \
-> responses(topic_id).partitions(partition=partition_index)
ShareAcknowledge topics(topic_id).partitions(partition=partition_index) \
-> responses(topic_id).partitions(partition=partition_index)
InitializeShareGroupState topics(topic_id).partitions(partition) -> results(topic_id).partitions(partition)
ReadShareGroupState topics(topic_id).partitions(partition) -> results(topic_id).partitions(partition)
WriteShareGroupState topics(topic_id).partitions(partition) -> results(topic_id).partitions(partition)
DeleteShareGroupState topics(topic_id).partitions(partition) -> results(topic_id).partitions(partition)
ReadShareGroupStateSummary topics(topic_id).partitions(partition) -> results(topic_id).partitions(partition)
DescribeShareGroupOffsets groups(group=group_id) -> groups(group=group_id)
DescribeShareGroupOffsets groups(group=group_id).topics(topic=topic_name).partitions(partition=*) \
-> groups(group=group_id).topics(topic=topic_name topic_id).partitions(partition=partition_index)
AlterShareGroupOffsets topics(topic=topic_name).partitions(partition=partition_index) \
-> responses(topic=topic_name topic_id).partitions(partition=partition_index)
DeleteShareGroupOffsets topics(topic=topic_name) -> responses(topic=topic_name topic_id)
"""

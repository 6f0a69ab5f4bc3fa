"""How repeated items in a request are treated: the table of docs/limits.md, verified by `test_repeated_items`."""

from __future__ import annotations

from typing import NamedTuple

ONCE = "once"
REFUSED = "refused"
EACH = "each time"


class Repeated(NamedTuple):
    """`here` is our response, and `by_kafka` Apache Kafka's if it differs."""

    here: str
    by_kafka: str = ""
    why: str = ""


_BY_NAME = Repeated(ONCE, EACH, "clients find it by name")
_BOTH_ONCE = Repeated(ONCE)
_BOTH_REFUSE = Repeated(REFUSED)
_BOTH_EACH = Repeated(EACH)

# The rule of each API. A request with several arrays follows the rule of the requested items; requests of brokers and
# controllers follow that of the first array.
REPEATED = {
    "AddPartitionsToTxn": Repeated(EACH, ONCE),
    "AddRaftVoter": _BOTH_REFUSE,
    "AlterClientQuotas": _BOTH_EACH,
    "AlterConfigs": Repeated(REFUSED, "not answered"),
    "AlterPartition": _BOTH_EACH,
    "AlterPartitionReassignments": Repeated(EACH, why="the first; the others are refused"),
    "AlterReplicaLogDirs": _BOTH_ONCE,
    "AlterShareGroupOffsets": Repeated(EACH, why="the offset named last is set"),
    "AlterUserScramCredentials": _BOTH_REFUSE,
    "AssignReplicasToDirs": _BOTH_EACH,
    "BeginQuorumEpoch": _BOTH_REFUSE,
    "BrokerHeartbeat": _BOTH_ONCE,
    "BrokerRegistration": _BOTH_ONCE,
    "ConsumerGroupDescribe": _BY_NAME,
    "ConsumerGroupHeartbeat": _BOTH_ONCE,
    "ControllerRegistration": _BOTH_ONCE,
    "CreateAcls": Repeated(EACH, why="clients find it by place"),
    "CreateDelegationToken": _BOTH_ONCE,
    "CreatePartitions": _BOTH_REFUSE,
    "CreateTopics": _BOTH_REFUSE,
    "DeleteAcls": Repeated(EACH, why="clients find it by place; looked up once"),
    "DeleteGroups": _BOTH_ONCE,
    "DeleteRecords": _BOTH_ONCE,
    "DeleteShareGroupOffsets": Repeated(EACH, why="topics with offsets are answered once"),
    "DeleteShareGroupState": Repeated(ONCE, why="each time is applied; the last is answered"),
    "DeleteTopics": Repeated(REFUSED, EACH),
    "DescribeClientQuotas": _BOTH_REFUSE,
    "DescribeConfigs": Repeated(ONCE, EACH, "with all keys that are asked for"),
    "DescribeDelegationToken": _BOTH_ONCE,
    "DescribeGroups": _BY_NAME,
    "DescribeLogDirs": _BOTH_ONCE,
    "DescribeProducers": _BY_NAME,
    "DescribeQuorum": Repeated(EACH, why="none of several is known"),
    "DescribeShareGroupOffsets": _BY_NAME,
    "DescribeTopicPartitions": _BOTH_ONCE,
    "DescribeTransactions": _BY_NAME,
    "DescribeUserScramCredentials": _BOTH_REFUSE,
    "ElectLeaders": _BOTH_EACH,
    "EndQuorumEpoch": _BOTH_REFUSE,
    "Fetch": _BOTH_ONCE,
    "FetchSnapshot": _BOTH_REFUSE,
    "FindCoordinator": _BY_NAME,
    "IncrementalAlterConfigs": Repeated(REFUSED, EACH),
    "InitializeShareGroupState": Repeated(ONCE, why="each time is applied; the last is answered"),
    "JoinGroup": _BOTH_ONCE,
    "LeaveGroup": Repeated(EACH, why="clients find it by place"),
    "ListConfigResources": _BOTH_ONCE,
    "ListGroups": _BOTH_ONCE,
    "ListOffsets": Repeated(EACH, ONCE, "each is refused"),
    "ListPartitionReassignments": _BY_NAME,
    "ListTransactions": _BOTH_ONCE,
    "Metadata": _BOTH_ONCE,
    "OffsetCommit": _BOTH_EACH,
    "OffsetDelete": _BOTH_EACH,
    "OffsetFetch": _BY_NAME,
    "OffsetForLeaderEpoch": _BOTH_EACH,
    "Produce": Repeated(EACH, ONCE, "all batches are appended"),
    "ReadShareGroupState": Repeated(ONCE, why="each time is applied; the last is answered"),
    "ReadShareGroupStateSummary": _BOTH_ONCE,
    "ShareAcknowledge": Repeated(ONCE, why="the acknowledgements named last count"),
    "ShareFetch": Repeated(ONCE, why="the acknowledgements named last count"),
    "ShareGroupDescribe": _BY_NAME,
    "ShareGroupHeartbeat": _BOTH_ONCE,
    "StreamsGroupDescribe": _BY_NAME,
    "StreamsGroupHeartbeat": _BOTH_ONCE,
    "SyncGroup": _BOTH_ONCE,
    "TxnOffsetCommit": _BOTH_EACH,
    "UpdateFeatures": _BOTH_REFUSE,
    "UpdateRaftVoter": _BOTH_REFUSE,
    "Vote": _BOTH_REFUSE,
    "WriteShareGroupState": Repeated(ONCE, why="each time is applied; the last is answered"),
    "WriteTxnMarkers": Repeated(EACH, ONCE),
}

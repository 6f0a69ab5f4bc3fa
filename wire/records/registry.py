"""The classes of records: tables by type, with classes that are imported at the first access.

Records of the metadata log and of `__remote_log_metadata` have their type in a frame; records of coordinators have it
as the int16 at the start of the key, which selects the classes of key and value.
Control records, which any log may have, are in `trimaran.wire.messages.control`.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import NamedTuple

from trimaran.wire.schema import Message


class _Table(Mapping[int, type[Message]]):
    """Type → class, given as `file.Class`; imports the file on first use."""

    def __init__(self, places: dict[int, str], suffix: str = "") -> None:
        self._places = places
        self._suffix = suffix
        self._classes: dict[int, type[Message]] = {}

    def __getitem__(self, key: int) -> type[Message]:
        found = self._classes.get(key)
        if found is None:
            module, _, name = self._places[key].partition(".")
            found = getattr(import_module(f"trimaran.wire.records.{module}"), name + self._suffix)
            self._classes[key] = found
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class KeysAndValues(NamedTuple):
    """The classes of the records of a coordinator's topic."""

    keys: Mapping[int, type[Message]]
    values: Mapping[int, type[Message]]


def _coordinator(places: dict[int, str]) -> KeysAndValues:
    return KeysAndValues(_Table(places, "Key"), _Table(places, "Value"))


METADATA_RECORDS: Mapping[int, type[Message]] = _Table(
    {
        0: "brokers.RegisterBrokerRecord",
        1: "brokers.UnregisterBrokerRecord",
        2: "topics.TopicRecord",
        3: "topics.PartitionRecord",
        4: "configs.ConfigRecord",
        5: "topics.PartitionChangeRecord",
        7: "brokers.FenceBrokerRecord",
        8: "brokers.UnfenceBrokerRecord",
        9: "topics.RemoveTopicRecord",
        10: "security.DelegationTokenRecord",
        11: "security.UserScramCredentialRecord",
        12: "features.FeatureLevelRecord",
        14: "quotas.ClientQuotaRecord",
        15: "producer_ids.ProducerIdsRecord",
        17: "brokers.BrokerRegistrationChangeRecord",
        18: "security.AccessControlEntryRecord",
        19: "security.RemoveAccessControlEntryRecord",
        20: "misc.NoOpRecord",
        21: "misc.ZkMigrationStateRecord",
        22: "security.RemoveUserScramCredentialRecord",
        23: "transactions.BeginTransactionRecord",
        24: "transactions.EndTransactionRecord",
        25: "transactions.AbortTransactionRecord",
        26: "security.RemoveDelegationTokenRecord",
        27: "brokers.RegisterControllerRecord",
        28: "topics.ClearElrRecord",
        29: "brokers.UnregisterControllerRecord",
    }
)

REMOTE_LOG_METADATA_RECORDS: Mapping[int, type[Message]] = _Table(
    {
        0: "remote_log_metadata.RemoteLogSegmentMetadataRecord",
        1: "remote_log_metadata.RemoteLogSegmentMetadataUpdateRecord",
        2: "remote_log_metadata.RemotePartitionDeleteMetadataRecord",
        3: "remote_log_metadata.RemoteLogSegmentMetadataSnapshotRecord",
    }
)

COORDINATOR_RECORDS: Mapping[str, KeysAndValues] = {
    "__consumer_offsets": _coordinator(
        {
            0: "groups.LegacyOffsetCommit",
            1: "groups.OffsetCommit",
            2: "groups.GroupMetadata",
            3: "consumer_groups.ConsumerGroupMetadata",
            4: "consumer_groups.ConsumerGroupPartitionMetadata",
            5: "consumer_groups.ConsumerGroupMemberMetadata",
            6: "consumer_groups.ConsumerGroupTargetAssignmentMetadata",
            7: "consumer_groups.ConsumerGroupTargetAssignmentMember",
            8: "consumer_groups.ConsumerGroupCurrentMemberAssignment",
            9: "share_groups.ShareGroupPartitionMetadata",
            10: "share_groups.ShareGroupMemberMetadata",
            11: "share_groups.ShareGroupMetadata",
            12: "share_groups.ShareGroupTargetAssignmentMetadata",
            13: "share_groups.ShareGroupTargetAssignmentMember",
            14: "share_groups.ShareGroupCurrentMemberAssignment",
            15: "share_groups.ShareGroupStatePartitionMetadata",
            16: "consumer_groups.ConsumerGroupRegularExpression",
            17: "streams_groups.StreamsGroupMetadata",
            19: "streams_groups.StreamsGroupMemberMetadata",
            20: "streams_groups.StreamsGroupTargetAssignmentMetadata",
            21: "streams_groups.StreamsGroupTargetAssignmentMember",
            22: "streams_groups.StreamsGroupCurrentMemberAssignment",
            23: "streams_groups.StreamsGroupTopology",
        }
    ),
    "__transaction_state": _coordinator({0: "transaction_log.TransactionLog"}),
    "__share_group_state": _coordinator(
        {0: "share_group_state.ShareSnapshot", 1: "share_group_state.ShareUpdate"}
    ),
}
"""By topic."""

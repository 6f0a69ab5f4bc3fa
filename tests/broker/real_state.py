"""A broker with some of every kind of state, so that requests by name find it: see `NAMES`."""

from __future__ import annotations

import contextlib
from typing import Any

from tests.badinput.peer import Address, Peer
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from trimaran.wire.messages.create_acls import AclCreation, CreateAclsRequest
from trimaran.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from trimaran.wire.messages.find_coordinator import FindCoordinatorRequest
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC, GROUP, TRANSACTION, USER = "t", "g", "x", "alice"
PARTITIONS = 10
# The maximal length that Kafka allows.
METADATA = "m" * 4096
SUBSCRIPTION = bytes(200_000)


def make_some_of_everything(address: Address) -> None:
    """Creates the state, with an authorizer; groups and transactions have one partition each."""
    with contextlib.closing(Peer(address)) as peer:
        _check(peer.ask(CreateTopicsRequest(topics=[_topic()]), 7).topics)
        for kind, key in ((0, GROUP), (1, TRANSACTION)):
            find = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            while peer.ask(find, 4).coordinators[0].error_code:
                pass
        while (committed := peer.ask(_committing(), 8).topics[0].partitions)[0].error_code:
            pass
        _check(committed)
        joined = peer.ask(_joining(), 3)
        assert not joined.error_code
        assert not peer.ask(_syncing(joined.member_id, joined.generation_id), 3).error_code
        _check(peer.ask(CreateAclsRequest(creations=[_acl(n) for n in range(50)]), 3).results)
        _check(
            peer.ask(AlterClientQuotasRequest(entries=[_quota()], validate_only=False), 1).entries
        )
        init = InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
        while (producer := peer.ask(init, 4)).error_code:
            pass
        adding = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TRANSACTION,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=TOPIC, partitions=list(range(PARTITIONS)))
            ],
        )
        [added] = peer.ask(adding, 3).results_by_topic_v3_and_below
        assert not any(result.partition_error_code for result in added.results_by_partition)


def _check(results: list[Any]) -> None:
    assert not any(result.error_code for result in results), results


def _topic() -> CreatableTopic:
    return CreatableTopic(
        name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )


def _joining() -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )


def _syncing(member_id: str, generation_id: int) -> SyncGroupRequest:
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(1000))
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=generation_id,
        member_id=member_id,
        assignments=[assignment],
    )


def _committing() -> OffsetCommitRequest:
    """Commits before the group has members; then only those may commit."""
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=1, committed_metadata=METADATA
        )
        for index in range(PARTITIONS)
    ]
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return OffsetCommitRequest(group_id=GROUP, topics=[topic])


def _acl(number: int) -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=TOPIC,
        resource_pattern_type=3,
        principal=f"User:{number}",
        host="*",
        operation=3,
        permission_type=3,
    )


def _quota() -> AlterClientQuotasRequestEntryData:
    return AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type="user", entity_name=USER)],
        ops=[OpData(key="producer_byte_rate", value=1e6, remove=False)],
    )

"""A broker refuses unauthorized clients and false followers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.broker.calls import connection
from tests.cluster.data_side import open_harness, partition, registration, replaced, topic, topic_id
from trimaran.broker.handlers.registry import broker_registry
from trimaran.quorum.metadata.acls import Acl
from trimaran.quorum.metadata.authorizer import Authorizer
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from trimaran.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from trimaran.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from trimaran.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from trimaran.wire.messages.header import decode_response_header, encode_request
from trimaran.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from trimaran.wire.messages.registry import RESPONSES
from trimaran.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from trimaran.wire.security.acls import Operation, PatternType, Permission, ResourceType

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def markers(name: str) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=5,
                producer_epoch=0,
                transaction_result=True,
                topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0, 1])],
                coordinator_epoch=0,
            )
        ]
    )


MOVES = AlterReplicaLogDirsRequest(
    dirs=[
        AlterReplicaLogDir(path="/else", topics=[AlterReplicaLogDirTopic(name="t", partitions=[0])])
    ]
)


async def answer_to(
    tmp_path: Path, request: Any, version: int, *, may: bool = False, acls: Sequence[Acl] = ()
) -> Any:
    """Returns the response of a broker whose authorizer allows our principal everything or nothing."""
    harness = open_harness(tmp_path)
    harness.set_image(
        topic("t", partition((11, 12), isr=(11, 12))), brokers=(registration(11), registration(12))
    )
    users = ["User:ANONYMOUS"] if may else ["User:admin"]
    authorizer = Authorizer(users, allow_if_no_acl=False)
    for acl in acls:
        authorizer._index.add(acl)
    authorizer.complete_initial_load()
    context = replaced(harness.contexts, authorizer=authorizer)
    frame = memoryview(bytearray(encode_request(request, version, 7, "test")))
    answer: Any = broker_registry().dispatch(frame, context, connection())
    data = bytes(await answer.finish() if hasattr(answer, "finish") else answer)
    _, body = decode_response_header(data, request.KEY, version)
    return RESPONSES[request.KEY].decode(data[body:], version)


async def test_only_brokers_may_write_markers(tmp_path: Path) -> None:
    answer = await answer_to(tmp_path, markers("t"), 1)
    (marker,) = answer.markers
    assert [p.error_code for p in marker.topics[0].partitions] == [REFUSED, REFUSED]
    answer = await answer_to(tmp_path / "may", markers("nowhere"), 1, may=True)
    code = answer.markers[0].topics[0].partitions[0].error_code
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("may_see", [(), ("t",)], ids=["no topic", "some topics"])
async def test_missing_group_is_one_error_without_topics(
    tmp_path: Path, may_see: tuple[str, ...]
) -> None:
    """Kafka's `OffsetDeleteResponse.Builder.merge` does the same, whether topics are refused or not."""
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in ("t", "u")]
    kinds = {ResourceType.GROUP: ("g",), ResourceType.TOPIC: may_see}
    acls = [
        Acl(kind, name, PatternType.LITERAL, "User:*", "*", Operation.ALL, Permission.ALLOW)
        for kind, names in kinds.items()
        for name in names
    ]
    answer = await answer_to(
        tmp_path, OffsetDeleteRequest(group_id="g", topics=topics), 0, acls=acls
    )
    assert (answer.error_code, answer.topics) == (ErrorCode.NOT_COORDINATOR, [])


async def test_only_brokers_may_verify_many_transactions(tmp_path: Path) -> None:
    question = AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=5, producer_epoch=0, verify_only=True, topics=[]
    )
    request = AddPartitionsToTxnRequest(transactions=[question])
    answer = await answer_to(tmp_path, request, 5)
    assert (answer.error_code, answer.results_by_transaction) == (REFUSED, [])
    answer = await answer_to(tmp_path / "may", request, 5, may=True)
    assert (answer.error_code, len(answer.results_by_transaction)) == (0, 1)


async def test_only_administrators_may_use_log_directories(tmp_path: Path) -> None:
    moved = await answer_to(tmp_path, MOVES, 2)
    assert moved.results[0].partitions[0].error_code == REFUSED
    for version, code in ((4, REFUSED), (1, 0)):
        described = await answer_to(
            tmp_path / str(version), DescribeLogDirsRequest(topics=None), version
        )
        assert (described.error_code, described.results) == (code, [])
    described = await answer_to(tmp_path / "may", DescribeLogDirsRequest(topics=None), 4, may=True)
    assert len(described.results) == 1


@pytest.mark.parametrize("may", [False, True])
async def test_only_brokers_may_fetch_as_followers(tmp_path: Path, may: bool) -> None:
    """The name and epoch are right, but the principal may not act as a broker: mA4, CVE-2018-1288."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_epoch=-1,
        replica_state=ReplicaState(replica_id=12, replica_epoch=112),
        topics=[
            FetchTopic(
                topic_id=topic_id("t"),
                partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)],
            )
        ],
        forgotten_topics_data=[],
    )
    answer = await answer_to(tmp_path, request, 17, may=may)
    expected = 0 if may else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert answer.responses[0].partitions[0].error_code == expected

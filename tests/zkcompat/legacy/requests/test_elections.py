import pytest

from tests.zkcompat import build
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.elect_leaders import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from trimaran.zkcompat.legacy.requests.admin_requests import PARTITIONS_IN_REQUEST, UndecidedError
from trimaran.zkcompat.legacy.requests.elections import PREFERRED_REPLICA_ELECTION, decide
from trimaran.zkcompat.tree.claim import TransactionStep

IMAGE = build.image_of(
    build.topic("a", build.T1),
    build.partition(build.T1, 0, [1, 2]),
    build.partition(build.T1, 1, [2, 1]),
    build.topic("b", build.T2),
    build.partition(build.T2, 0, [1, 2]),
)
CLEANUP = (TransactionStep("delete", PREFERRED_REPLICA_ELECTION),)


def order_of(data, image=IMAGE):
    return decide(PREFERRED_REPLICA_ELECTION, data, image)


def test_existing_partitions_are_elected():
    request = order_of(
        b'{"version":1,"partitions":[{"topic":"b","partition":0},{"topic":"a","partition":1},'
        b'{"topic":"a","partition":7},{"topic":"a","partition":1}]}'
    )
    (quorum_request,) = request.quorum_requests
    assert quorum_request.request.election_type == 0
    assert [(t.topic, t.partitions) for t in quorum_request.request.topic_partitions] == [
        ("a", [1]),
        ("b", [0]),
    ]
    assert request.refused == ["elect preferred leaders: no partition a-7"]
    assert request.cleanup == CLEANUP


@pytest.mark.parametrize(
    "data",
    [None, b"", b"x", b"[]", b"{}", b'{"partitions":1}', b'{"partitions":[1]}',
     b'{"partitions":[{"topic":"a"}]}', b'{"partitions":[{"topic":"a","partition":"0"}]}',
     b'{"partitions":[{"topic":"a","partition":true}]}'],
)  # fmt: skip
def test_invalid_request_is_removed(data):
    request = order_of(data)
    assert not request.quorum_requests
    assert len(request.refused) == 1
    assert request.cleanup == CLEANUP


def test_many_partitions_are_requested_in_portions():
    count = PARTITIONS_IN_REQUEST + 1
    image = build.image_of(
        build.topic("t", build.T1), *[build.partition(build.T1, i, [1]) for i in range(count)]
    )
    names = ",".join(f'{{"topic":"t","partition":{i}}}' for i in range(count))
    quorum_requests = order_of(f'{{"partitions":[{names}]}}'.encode(), image).quorum_requests
    assert [len(a.request.topic_partitions[0].partitions) for a in quorum_requests] == [
        count - 1,
        1,
    ]


def test_error_codes_become_refusals():
    (quorum_request,) = order_of(b'{"partitions":[{"topic":"a","partition":0}]}').quorum_requests

    def said(code, whole=0):
        one = PartitionResult(partition_id=0, error_code=code, error_message="why")
        result = ReplicaElectionResult(topic="a", partition_result=[one])
        return quorum_request.refusals(
            ElectLeadersResponse(error_code=whole, replica_election_results=[result])
        )

    assert said(ErrorCode.NONE) == said(ErrorCode.ELECTION_NOT_NEEDED) == []
    assert said(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE) == [
        "elect the preferred leader of a-0: PREFERRED_LEADER_NOT_AVAILABLE: why"
    ]
    with pytest.raises(UndecidedError):
        said(0, ErrorCode.NOT_CONTROLLER)

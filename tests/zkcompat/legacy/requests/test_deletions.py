from tests.zkcompat import build
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from trimaran.zkcompat.legacy.requests.admin_requests import RequestKind
from trimaran.zkcompat.legacy.requests.deletions import decide
from trimaran.zkcompat.tree.claim import TransactionStep

PATH = "/admin/delete_topics/orders"
NOTED = uuid_to_text(build.T1).encode()
IMAGE = build.image_of(build.topic("orders", build.T1), build.partition(build.T1, 0, [1]))
AGAIN = build.image_of(build.topic("orders", build.T2), build.partition(build.T2, 0, [1]))


def said(request, code):
    answer = DeletableTopicResult(name=None, topic_id=build.T1, error_code=code)
    return request.quorum_requests[0].refusals(DeleteTopicsResponse(responses=[answer]))


def test_topic_is_deleted_by_id_noted_first():
    for data in (None, b""):
        request = decide(PATH, data, IMAGE)
        assert request.kind is RequestKind.DELETION
        assert [t.topic_id for t in request.quorum_requests[0].request.topics] == [build.T1]
        assert request.claim == (TransactionStep("set", PATH, NOTED),)
        assert request.cleanup == (TransactionStep("delete", PATH),)


def test_next_mirror_uses_the_noted_id():
    request = decide(PATH, NOTED, IMAGE)
    assert [t.topic_id for t in request.quorum_requests[0].request.topics] == [build.T1]
    assert not request.claim


def test_recreated_topic_stays():
    request = decide(PATH, NOTED, AGAIN)
    assert not request.quorum_requests
    assert not request.refused
    assert request.cleanup == (TransactionStep("delete", PATH),)


def test_missing_topic_is_refused():
    request = decide(PATH, None, build.image_of())
    assert not request.quorum_requests
    assert request.refused == ["delete topic orders: no such topic"]
    assert request.cleanup


def test_error_codes_become_refusals():
    request = decide(PATH, None, IMAGE)
    assert said(request, ErrorCode.NONE) == []
    assert said(request, ErrorCode.UNKNOWN_TOPIC_ID) == []
    assert said(request, ErrorCode.TOPIC_DELETION_DISABLED) == [
        "delete topic orders: TOPIC_DELETION_DISABLED"
    ]

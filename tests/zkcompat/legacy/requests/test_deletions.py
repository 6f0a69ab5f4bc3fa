from tests.zkcompat import build
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse
from trimaran.zkcompat.legacy.requests.admin_requests import Kind
from trimaran.zkcompat.legacy.requests.deletions import decide
from trimaran.zkcompat.tree.claim import Step

PATH = "/admin/delete_topics/orders"
NOTED = uuid_to_text(build.T1).encode()
IMAGE = build.image_of(build.topic("orders", build.T1), build.partition(build.T1, 0, [1]))
AGAIN = build.image_of(build.topic("orders", build.T2), build.partition(build.T2, 0, [1]))


def said(order, code):
    answer = DeletableTopicResult(name=None, topic_id=build.T1, error_code=code)
    return order.asks[0].refusals(DeleteTopicsResponse(responses=[answer]))


def test_a_topic_is_deleted_by_its_id_which_is_noted_first():
    for data in (None, b""):
        order = decide(PATH, data, IMAGE)
        assert order.kind is Kind.DELETION
        assert [t.topic_id for t in order.asks[0].request.topics] == [build.T1]
        assert order.claim == (Step("set", PATH, NOTED),)
        assert order.tidy == (Step("delete", PATH),)


def test_a_mirror_that_comes_after_takes_the_id_that_was_noted():
    order = decide(PATH, NOTED, IMAGE)
    assert [t.topic_id for t in order.asks[0].request.topics] == [build.T1]
    assert not order.claim


def test_a_topic_that_was_made_again_stays():
    order = decide(PATH, NOTED, AGAIN)
    assert not order.asks
    assert not order.refused
    assert order.tidy == (Step("delete", PATH),)


def test_a_topic_that_is_not_there_is_refused():
    order = decide(PATH, None, build.image_of())
    assert not order.asks
    assert order.refused == ["delete topic orders: no such topic"]
    assert order.tidy


def test_what_the_quorum_says():
    order = decide(PATH, None, IMAGE)
    assert said(order, ErrorCode.NONE) == []
    assert said(order, ErrorCode.UNKNOWN_TOPIC_ID) == []
    assert said(order, ErrorCode.TOPIC_DELETION_DISABLED) == [
        "delete topic orders: TOPIC_DELETION_DISABLED"
    ]

"""DeleteTopics through a broker: the response is sent once the broker has applied the deletion too."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def by_id(topic_id):
    state = DeleteTopicState(name=None, topic_id=topic_id)
    return DeleteTopicsRequest(topics=[state], timeout_ms=1000)


async def test_deleted_topic_is_forgotten_at_once(tmp_path):
    async with broker_client(tmp_path) as one:
        await one.create("t", "u")
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
        assert [r.error_code for r in (await one.call(request, 5)).responses] == [0]
        assert set(one.image.topics.by_name) == {"u"}
        (response,) = (await one.call(by_id(one.image.topics.by_name["u"].id))).responses
        assert (response.name, response.error_code) == ("u", 0)
        assert not one.image.topics.by_name


async def test_missing_topic_cannot_be_deleted(tmp_path):
    async with broker_client(tmp_path) as one:
        request = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)
        (response,) = (await one.call(request, 5)).responses
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        (response,) = (await one.call(by_id(b"x" * 16))).responses
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_refusal_names_every_topic_by_name_and_id(tmp_path):
    request = DeleteTopicsRequest(topic_names=["t", "u"], timeout_ms=1000)
    named = await refusal_by_controller(tmp_path / "names", request, 5)
    with_id = await refusal_by_controller(tmp_path / "ids", by_id(b"x" * 16), 6)
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert [(r.name, r.error_code) for r in named.responses] == [("t", code), ("u", code)]
    assert [(r.topic_id, r.error_code) for r in with_id.responses] == [(b"x" * 16, code)]

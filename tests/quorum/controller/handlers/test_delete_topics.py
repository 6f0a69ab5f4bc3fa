"""DeleteTopics on the controller."""

from tests.broker.handlers.test_delete_topics import by_id
from tests.quorum.controller.handlers.controller_client import controller_client
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.delete_topics import DeleteTopicsRequest

BY_NAME = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000)


async def test_topic_is_deleted_by_name_or_id(tmp_path):
    async with controller_client(tmp_path) as one:
        await one.join(1)
        await one.create("t", [1])
        topic = await one.create("u", [1])
        assert [r.error_code for r in (await one.call(BY_NAME, 5)).responses] == [0]
        (response,) = (await one.call(by_id(topic.id), 6)).responses
        assert (response.name, response.error_code) == ("u", 0)
        assert not one.image.topics.by_name
        (response,) = (await one.call(by_id(topic.id), 6)).responses
        assert response.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_disabled_deletion_removes_nothing(tmp_path):
    async with controller_client(tmp_path, delete_topic_enable="false") as one:
        await one.join(1)
        await one.create("t", [1])
        for version, code in (
            (2, ErrorCode.INVALID_REQUEST),
            (5, ErrorCode.TOPIC_DELETION_DISABLED),
        ):
            (response,) = (await one.call(BY_NAME, version)).responses
            assert response.error_code == code
        assert "t" in one.image.topics.by_name

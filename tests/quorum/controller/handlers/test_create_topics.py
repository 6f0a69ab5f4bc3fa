"""CreateTopics on the controller."""

import pytest

from tests.broker.handlers.test_create_topics import creation
from tests.quorum.controller.handlers.asking import asked, asked_standby
from wire.errors import ErrorCode


@pytest.mark.parametrize("version", [2, 5, 7])
async def test_a_topic_is_made_of_brokers_that_serve(tmp_path, version):
    async with asked(tmp_path) as one:
        await one.join(1, 2)
        answer = await one.call(creation(partitions=3, replicas=2), version)
        (created,) = answer.topics
        topic = one.image.topics.by_name["t"]
        assert created.error_code == 0
        assert [sorted(p.replicas) for p in topic.partitions.values()] == [[1, 2]] * 3
        assert created.topic_id == (topic.id if version >= 7 else bytes(16))
        assert bool(created.configs) == (version >= 5)


async def test_without_brokers_there_is_no_topic(tmp_path):
    async with asked(tmp_path) as one:
        (topic,) = (await one.call(creation())).topics
        assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.slow
async def test_who_is_not_active_says_so_for_every_topic(tmp_path):
    async with asked_standby(tmp_path) as one:
        assert [t.error_code for t in (await one.call(creation())).topics] == [
            ErrorCode.NOT_CONTROLLER
        ]

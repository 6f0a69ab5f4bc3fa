"""Other clients' znodes with the longest names that ZooKeeper accepts; three of them exceed a packet."""

import pytest
from kazoo.security import CREATOR_ALL_ACL

from tests.zkcompat import build
from tests.zkcompat.rig import Source, connected, differences, in_step, running, topics
from trimaran.zkcompat.znodes.mirror_report import REPORT_PARENTS

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


COUNT, LENGTH = 4, 400_000


@pytest.mark.parametrize("locked", [False, True])
async def test_long_names_stop_nothing(connect, locked, caplog):
    source = Source(build.broker(1), *topics(2))
    async with connected(connect, auth=[("digest", "somebody:else")]) as other:
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
        for number in range(COUNT):
            path = f"/brokers/topics/{number}-{'x' * LENGTH}"
            acl = CREATOR_ALL_ACL if locked else None
            await other._answer(other._client.create_async(path, b"", acl=acl), path)
            if locked:  # a znode with children is not deleted
                await other._answer(other._client.create_async(f"{path}/p", b"", acl=acl), path)
        source.say(build.config(2, "topic-1", "retention.ms", "1"))
        async with running(connect, source) as mirror:
            await in_step(mirror, source)
            assert mirror.status.claims == 1
            left = await differences(other, source)
            assert len([entry for entry in left if entry.path.count("/") == 3]) == locked * COUNT
            source.say(build.config(2, "topic-2", "retention.ms", "2"))
            await in_step(mirror, source)
            assert mirror.status.claims == 1
            assert await other.children(REPORT_PARENTS[-1])
            assert len(mirror.quarantine) == locked * COUNT
    said = [
        len(record.getMessage())
        for record in caplog.records
        if record.name.startswith("trimaran.zkcompat")
    ]
    assert max(said, default=0) < 5000

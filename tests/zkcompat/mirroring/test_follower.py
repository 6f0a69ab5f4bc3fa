"""Changes take precedence over comparisons of suspects."""

import pytest

from tests.zkcompat import build
from tests.zkcompat.rig import (
    Source,
    connected,
    differences,
    in_step,
    reached,
    running,
    topics,
)
from trimaran.zkcompat.zookeeper.keeper import Keeper

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


async def test_change_waits_for_one_slice_of_comparison(connect, monkeypatch):
    """Otherwise a client that keeps many znodes suspect would delay all changes."""
    source = Source(build.broker(1), *topics(3))
    published = []
    async with running(connect, source) as mirror, connected(connect) as person:
        await in_step(mirror, source)
        read_tree = Keeper.read_tree

        async def noting(keeper, roots, singles, **bounds):
            if keeper is mirror.keeper:
                published.append(mirror.status.published_offset == source.offset)
                if len(published) == 1:
                    source.say(build.config(2, "topic-1", "retention.ms", "5"))
            return await read_tree(keeper, roots, singles, **bounds)

        monkeypatch.setattr(Keeper, "read_tree", noting)
        client = person._client
        await person._answer(client.delete_async("/brokers/ids/1"))
        await reached(mirror, lambda status: status.repairs)
        await in_step(mirror, source)
        assert len(published) > 2
        assert all(published)
        assert await differences(person, source) == ()

"""A broker that is unregistered while it runs registers again with another epoch, and rejoins every ISR."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from tests.broker.test_end_to_end import in_thread, produce
from tests.cluster.in_process import cluster, connected_to
from trimaran.wire.messages.unregister_broker import UnregisterBrokerRequest

pytestmark = pytest.mark.slow

SECONDS = 60.0


async def test_partitions_at_rest_have_it_in_sync_again(tmp_path: Path) -> None:
    """KIP-903: leaders count only what it fetched in its present broker epoch, and no records are appended here."""
    settings = {"num_partitions": "3", "default_replication_factor": "2"}
    async with cluster(tmp_path, brokers=2, **settings) as running:
        await in_thread(produce, running.bootstrap, "t")
        metadata = running.brokers[11].parts.metadata

        def all_in_sync(image) -> bool:
            return all(len(p.isr) == 2 for p in image.topics.by_name["t"].partitions.values())

        with trio.fail_after(SECONDS):
            before = (await metadata.wait_for(all_in_sync)).cluster.brokers[12].epoch
            async with connected_to(running.brokers[11]) as asked:
                answer = await asked.call(UnregisterBrokerRequest(broker_id=12), timeout=SECONDS)
            assert not answer.error_code
            await metadata.wait_for(
                lambda image: (
                    12 in image.cluster.brokers and image.cluster.brokers[12].epoch != before
                )
            )
            await metadata.wait_for(all_in_sync)

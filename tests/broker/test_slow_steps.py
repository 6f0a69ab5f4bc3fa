"""No step of a broker's loop exceeds its limit, whatever clients request."""

from functools import partial

import pytest
import trio

from tests.broker.test_end_to_end import consume, in_thread, produce
from tests.cluster.in_process import cluster
from tests.slow_steps import CALLS_MAX, no_slow_steps
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.messages.metadata import MetadataRequest

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
VALUES = [b"%d" % number * 200 for number in range(3_000)]


async def test_slow_step_fails_the_test():
    with pytest.raises(AssertionError, match="busy"), no_slow_steps():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(busy)


async def busy():
    for number in range(CALLS_MAX):
        abs(number)


async def test_produce_fetch_and_metadata(tmp_path):
    async with cluster(tmp_path, num_partitions="3") as running:
        bootstrap = running.bootstrap
        # The first request of each kind compiles its codecs.
        await in_thread(produce, bootstrap, "warm")
        await in_thread(consume, bootstrap, "warm")
        with no_slow_steps():
            for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
                settings = {"compression.type": compression}
                await in_thread(partial(produce, **settings), bootstrap, compression, VALUES)
                read = await in_thread(consume, bootstrap, compression, len(VALUES))
                assert set(read) == set(VALUES)
            await in_thread(ask_metadata, bootstrap)


def ask_metadata(bootstrap):
    with BlockingClient(bootstrap) as client:
        for _ in range(10):
            client.call(None, MetadataRequest(topics=None))

"""The basis of audits in the demo and in chaos runs: every record of a topic is read back from its offset."""

from __future__ import annotations

import threading

import pytest

from tests import librdkafka
from tests.broker.test_end_to_end import VALUE_COUNT, in_thread, produce
from tests.cluster.in_process import cluster
from tests.cluster.nodes import SECONDS
from trimaran.demo import workload
from trimaran.demo.workload import consume_as_group, read_everything

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


async def test_every_partition_is_read_to_end(tmp_path, monkeypatch):
    async with cluster(tmp_path, num_partitions="3") as running:
        written = await in_thread(produce, running.bootstrap, "t")

        def read():
            return {value: place for place, value in read_everything(running.bootstrap, "t", 3)}

        assert await in_thread(read) == written
        monkeypatch.setattr(workload, "READ_SECONDS_MAX", -1.0)
        with pytest.raises(TimeoutError, match="only partitions"):
            await in_thread(read)


async def test_late_member_gets_its_share(tmp_path, monkeypatch):
    """On a busy machine one member may have read everything before the other has joined."""
    late = Late()
    monkeypatch.setattr(workload, "Consumer", late.consumer)
    settings = {
        "num_partitions": "3",
        "group_initial_rebalance_delay_ms": "0",
        "offsets_topic_replication_factor": "1",
        "offsets_topic_num_partitions": "1",
    }
    async with cluster(tmp_path, **settings) as running:
        await in_thread(produce, running.bootstrap, "t")
        counts = await in_thread(
            consume_as_group, running.bootstrap, "t", "readers", 2, VALUE_COUNT
        )
    assert sum(counts) == VALUE_COUNT
    assert all(counts)


class Late:
    """Creates consumers; the first has its partitions, and has polled them often, before the rest subscribe."""

    ASKED = 5

    def __init__(self):
        self.has_begun = threading.Event()
        self.first = None
        self.asked = 0
        self.lock = threading.Lock()

    def consumer(self, settings):
        late = self

        class OneConsumer(librdkafka.Consumer):
            def subscribe(self, *arguments, **options):
                with late.lock:
                    late.first = late.first or self
                if self is not late.first:
                    late.has_begun.wait(SECONDS)
                super().subscribe(*arguments, **options)

            def consume(self, *arguments):
                found = super().consume(*arguments)
                if self is late.first and self.assignment():
                    late.asked += 1
                    if late.asked == late.ASKED:
                        late.has_begun.set()
                return found

        return OneConsumer(settings)

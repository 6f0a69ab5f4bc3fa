"""What the audits of the demo and of chaos runs rest on: every record of a topic is read back, at its place."""

from __future__ import annotations

import pytest

from tests.broker.test_end_to_end import in_thread, produce
from tests.cluster.in_process import cluster
from trimaran.demo import workload
from trimaran.demo.workload import read_everything

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


async def test_every_partition_is_read_to_its_end_or_it_is_said(tmp_path, monkeypatch):
    async with cluster(tmp_path, num_partitions="3") as running:
        written = await in_thread(produce, running.bootstrap, "t")

        def read():
            return {value: place for place, value in read_everything(running.bootstrap, "t", 3)}

        assert await in_thread(read) == written
        monkeypatch.setattr(workload, "READ_SECONDS_MAX", -1.0)
        with pytest.raises(TimeoutError, match="only partitions"):
            await in_thread(read)

"""What a mirror tells Prometheus, against a real ZooKeeper."""

import re
import urllib.request

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from tests.zkcompat.rig import Source, in_step, running, topics
from trimaran.metrics.alerts import ALERTS
from trimaran.metrics.beside import mirror_with_metrics

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


def _get(url):
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.read().decode()


async def test_a_mirror_in_step_is_ready_and_counts_its_writes(connect):
    source = Source(*topics(3))
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
        async with mirror_with_metrics(mirror, ("127.0.0.1", 0)) as address:
            url = f"http://{address[0]}:{address[1]}"
            assert await trio.to_thread.run_sync(_get, f"{url}/readyz") == "ready\n"
            text = await trio.to_thread.run_sync(_get, f"{url}/metrics")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["trimaran_zk_mirror_state", "in step"] == 1
    assert found["trimaran_zk_mirror_published_offset",] == source.offset
    assert found["trimaran_zk_mirror_lag_records",] == 0
    assert found["trimaran_zk_mirror_writes_total",] > 9
    queries = " ".join(alert.expression for alert in ALERTS)
    wanted = set(re.findall(r"\btrimaran_zk_mirror_\w+", queries))
    assert wanted
    assert wanted <= {name for name, *_ in found}

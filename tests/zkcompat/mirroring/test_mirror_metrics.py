"""A mirror's metrics, against a real ZooKeeper."""

import re
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from tests.zkcompat.rig import Source, in_step, running, topics
from trimaran.metrics.alerts import ALERTS
from trimaran.metrics.mirror_monitor import mirror_with_metrics
from trimaran.quorum.metadata.image import UnknownRecords

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]


def _get(url):
    with urllib.request.urlopen(url, timeout=20) as response:
        return response.read().decode()


async def _asked(address, path):
    return await trio.to_thread.run_sync(_get, f"http://{address[0]}:{address[1]}{path}")


async def test_mirror_without_quorum_is_healthy_but_unready():
    async with mirror_with_metrics(("127.0.0.1", 0)) as monitor:
        assert await _asked(monitor.address, "/healthz") == "ok\n"
        with pytest.raises(urllib.error.HTTPError) as refused:
            await _asked(monitor.address, "/readyz")
        assert refused.value.read() == b"the quorum was not found yet\n"
        assert "trimaran_build_info" in await _asked(monitor.address, "/metrics")


async def test_mirror_in_step_is_ready_counting_writes(connect):
    source = Source(*topics(3))
    async with running(connect, source) as mirror:
        await in_step(mirror, source)
        mirror.feed.image = replace(mirror.feed.image, unknown=UnknownRecords(2))
        async with mirror_with_metrics(("127.0.0.1", 0)) as monitor:
            monitor(mirror)
            assert await _asked(monitor.address, "/readyz") == "ready\n"
            text = await _asked(monitor.address, "/metrics")
    found = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["trimaran_zk_mirror_state", "in step"] == 1
    assert found["trimaran_zk_mirror_published_offset",] == source.offset
    assert found["trimaran_zk_mirror_lag_records",] == 0
    assert found["trimaran_zk_mirror_unknown_records",] == 2
    assert found["trimaran_zk_mirror_writes_total",] > 9
    queries = " ".join(alert.expression for alert in ALERTS)
    wanted = set(re.findall(r"\btrimaran_zk_mirror_\w+", queries))
    assert wanted
    assert wanted <= {name for name, *_ in found}

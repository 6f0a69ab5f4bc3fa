"""A real Prometheus scrapes a 3 + 3 cluster with our configuration: every panel has data, every alert is a valid rule,
and the alerts about a dead broker fire. Needs Debian's package `prometheus`.
"""

import json
import shutil
import subprocess
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest

from tests.cluster.processes import LocalCluster, trimaran, until
from trimaran.metrics.dashboard import PANELS
from trimaran.node.runtime.ports import reserve

# A minute of the alerts takes some seconds in the test.
SECONDS = 1


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("metrics") / "data", "--metrics") as running:
        running.run("topics", "create", "t", "-p", "6", "-r", "3")
        trimaran("produce", "t", "--data", str(running.data), stdin="v\n" * 1000)
        yield running


@contextmanager
def prometheus(cluster, path):
    if shutil.which("prometheus") is None:
        pytest.fail("there is no prometheus here: apt-get install prometheus")
    rules, config = path / "alerts.yml", path / "prometheus.yml"
    rules.write_text(trimaran("generate", "alerts").stdout.replace("for: 1m", "for: 1s"))
    written = cluster.run("generate", "prometheus", "--rules", str(rules)).stdout
    config.write_text(written.replace("15s", f"{SECONDS}s"))
    subprocess.run(["promtool", "check", "config", config], check=True)
    with reserve() as held:
        port = held.getsockname()[1]
    command = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={path / 'tsdb'}"]
    with (path / "log").open("w") as log:
        server = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stderr=log, stdout=log
        )
    try:
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        server.terminate()
        server.wait()


def ask(url, what, **parameters):
    """Returns the result of a query; None if Prometheus does not respond."""
    query = urllib.parse.urlencode(parameters)
    try:
        with urllib.request.urlopen(f"{url}/{what}?{query}", timeout=10) as response:
            return json.load(response)["data"]
    except urllib.error.URLError:
        return None


def all_up(url):
    found = ask(url, "targets")
    targets = found["activeTargets"] if found else []
    return len(targets) == 6 and all(target["health"] == "up" for target in targets)


def firing(url):
    rules = ask(url, "rules")["groups"][0]["rules"]
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    return {rule["name"] for rule in rules if rule["state"] == "firing"}


def test_panels_have_data_and_dead_broker_alerts(cluster, tmp_path):
    with prometheus(cluster, tmp_path) as url:
        until(lambda: all_up(url), "all nodes are scraped", 60)
        for panel in PANELS:
            for query, _ in panel.queries:
                until(lambda q=query: ask(url, "query", query=q)["result"], f"data of {query}", 60)
        assert firing(url) <= {"LoopBusy"}  # a start uses CPU
        cluster.kill("broker-11")
        dead = {"UnderReplicatedPartitions", "NodeUnreachable"}
        until(lambda: firing(url) >= dead, "alerts of the dead broker", 60)
        cluster.restart("broker-11")
        until(lambda: not firing(url) & dead, "no alert is left", 120)

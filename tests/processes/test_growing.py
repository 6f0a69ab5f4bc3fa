"""Adding brokers to a local cluster: a failure leaves the cluster unchanged, whether it is running or stopped."""

import json

import pytest

from tests.cluster.processes import LocalCluster
from trimaran.errors.user_error import Exit

SMALL = ("--controllers", "1", "--brokers", "1")
# These settings lack the SCRAM credentials for the inter-broker login, so the broker exits during startup.
BROKEN = (
    "--override=listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "--override=sasl.enabled.mechanisms=SCRAM-SHA-256",
    "--override=sasl.mechanism.inter.broker.protocol=SCRAM-SHA-256",
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("growing"), *SMALL) as cluster:
        yield cluster


def listed(cluster):
    return [row["id"] for row in json.loads(cluster.run("brokers", "list", "-o", "json").stdout)]


def test_brokers_are_added_to_running_cluster(cluster):
    before = cluster.state
    said = cluster.run("up", "--brokers", 2)
    assert "1 new node: broker-12; ready" in said.stderr
    assert cluster.run("brokers", "add", 2, "--dry-run").stderr == "would add 2 brokers: 13, 14\n"
    (added,) = cluster.json("brokers", "add")
    assert (added["name"], added["state"]) == ("broker-13", "running")
    assert listed(cluster) == [11, 12, 13]
    assert cluster.state.nodes[: len(before.nodes)] == before.nodes


@pytest.mark.parametrize("in_the_way", ["broker-14", "broker-14.log"])
def test_broker_that_cannot_start_is_removed_again(cluster, in_the_way):
    """Either its directory cannot be formatted, or it exits at once because its log file cannot be opened."""
    before = cluster.state
    hindrance = cluster.data / in_the_way
    hindrance.write_text("") if in_the_way == "broker-14" else hindrance.mkdir()
    failed = cluster.run("brokers", "add", check=False)
    assert failed.returncode == Exit.NO
    assert cluster.state == before
    assert [path.name for path in cluster.data.glob("broker-14*")] == [in_the_way]
    hindrance.unlink() if hindrance.is_file() else hindrance.rmdir()
    assert listed(cluster) == [11, 12, 13]


def test_failed_start_is_undone_and_next_succeeds(cluster):
    cluster.run("down")
    refused = cluster.run("brokers", "add", check=False)
    assert (refused.returncode, "is not running" in refused.stderr) == (Exit.USAGE, True)
    files = [*cluster.data.glob("*.properties"), cluster.data / "cluster.json"]
    before = {path: path.read_bytes() for path in files}
    failed = cluster.run("up", "-d", "--brokers", 4, *BROKEN, check=False)
    assert "exited during startup; the cluster was stopped" in failed.stderr
    assert {path: path.read_bytes() for path in files} == before
    assert [path.name for path in cluster.data.glob("broker-14*")] == ["broker-14.log"]
    cluster.run("up", "-d")
    assert listed(cluster) == [11, 12, 13]

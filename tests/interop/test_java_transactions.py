"""Transactions of Kafka's own Java clients, 0.11 to 4.4, on our brokers and, for supported clients, on Kafka 4.4."""

import subprocess

import pytest

from tests.interop import apache_kafka, java_programs

VERSIONS = ["0.11.0.3", "1.1.1", "2.8.2", "3.9.1", apache_kafka.VERSION]
# Kafka 4.0 and newer refuse clients from before 2.1 (KIP-896).
KAFKAS = VERSIONS[2:]
STEPS = 10
SECONDS_MAX = 180


def check_transactions(version, bootstrap, folder):
    """Creates the program's topics and runs it; each of its steps must succeed."""
    path = java_programs.compiled("Transactions", folder, version)
    prefix = f"java-{version}"
    topics = [f"{prefix}-{name}" for name in ("output", "input")]
    for topic in topics:
        apache_kafka.tool("topics", "--bootstrap-server", bootstrap, "--create", "--topic", topic)
    arguments = ("Transactions", bootstrap, *topics, prefix)
    line = java_programs.command(path, *arguments, version=version)
    done = subprocess.run(line, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == STEPS, done.stdout


@pytest.mark.client("Java", "transactions")
@pytest.mark.parametrize("version", VERSIONS)
def test_java_transactions_work_on_our_brokers(ours, version, tmp_path):
    check_transactions(version, ours.bootstrap, tmp_path)


@pytest.mark.parametrize("version", KAFKAS)
def test_on_apache_kafka(kafka, version, tmp_path):
    check_transactions(version, kafka.bootstrap, tmp_path)

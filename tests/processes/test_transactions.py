"""`produce --transactional-id`, `consume --isolation`, `transactions list|describe|hanging|abort` against a real
cluster.
"""

import json
import signal

import pytest

from tests.cluster.processes import LocalCluster, until
from tests.processes.test_produce_consume import consumed, started
from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.node.runtime.clock import now_ms
from trimaran.wire.blocking import BlockingClient
from trimaran.wire.client.destinations import CoordinatorNode, LeaderNode
from trimaran.wire.identity import TopicPartition
from trimaran.wire.messages.init_producer_id import InitProducerIdRequest
from trimaran.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

UNVERIFIED = ("--override", "transaction.partition.verification.enable=false")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    directory = tmp_path_factory.mktemp("transactions")
    with LocalCluster(directory, "--controllers", "1", "--brokers", "1", *UNVERIFIED) as cluster:
        for name in ("t", "hung"):
            cluster.run("topics", "create", name, "-p", 1)
            cluster.wait_for_topic(name)
        yield cluster


def produced(cluster, *lines, signal_before_end=None):
    with started(cluster, "produce", "t", "--transactional-id", "x") as writer:
        for line in lines:
            writer.stdin.write(line.encode() + b"\n")
        if signal_before_end is not None:
            until(lambda: "Ongoing" in described(cluster)["state"], "the transaction")
            writer.send_signal(signal_before_end)
        else:
            writer.stdin.close()
        error = writer.stderr.read().decode()
        return writer.wait(), error


def described(cluster):
    done = cluster.run("transactions", "describe", "x", "-o", "json", check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"state": ""}


def test_transactional_produce_writes_all_lines_or_none(cluster):
    assert produced(cluster, "a", "b") == (
        0,
        "transaction of x committed\n2 records acknowledged\n",
    )
    code, error = produced(cluster, "never", signal_before_end=signal.SIGINT)
    assert (code, error) == (130, "transaction of x aborted\n1 record acknowledged\n")
    committed = ("--isolation", "read_committed")
    assert consumed(cluster, "t", *committed) == ["a", "b"]
    assert consumed(cluster, "t") == ["a", "b", "never"]
    assert consumed(cluster, "t", "--offset", "1", *committed) == ["b"]
    found = described(cluster)
    assert (found["id"], found["state"], found["partitions"]) == ("x", "CompleteAbort", [])
    listed = json.loads(
        cluster.run("transactions", "list", "--pattern", "x|y", "-o", "json").stdout
    )
    assert [(row["id"], row["state"]) for row in listed] == [("x", "CompleteAbort")]
    nobody = cluster.run("transactions", "describe", "nobody", check=False)
    assert "no transactional id nobody" in nobody.stderr


def hang(cluster):
    """Produces a batch of a transaction that no coordinator knows, as a late producer does."""
    with BlockingClient(cluster.bootstrap) as client:
        producer = client.call(
            CoordinatorNode("late", 1),
            InitProducerIdRequest(transactional_id="late", transaction_timeout_ms=1000),
        )
        assert producer.error_code == 0
        records = build_batch(
            [NewRecord(None, b"late", now_ms())],
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = TopicProduceData(
            name="hung", partition_data=[PartitionProduceData(index=0, records=records)]
        )
        request = ProduceRequest(
            transactional_id="late", acks=-1, timeout_ms=5000, topic_data=[data]
        )
        answer = client.call(LeaderNode(TopicPartition("hung", 0)), request, version=9)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_hanging_transaction_is_found_and_aborted(cluster):
    ask = ("transactions", "hanging", "hung", "--older-than-minutes", "0", "-o", "json")
    assert json.loads(cluster.run(*ask).stdout) == []
    hang(cluster)
    found = json.loads(cluster.run(*ask, check=False).stdout)
    assert [(row["topic"], row["partition"], row["start_offset"]) for row in found] == [
        ("hung", 0, 0)
    ]
    where = ("transactions", "abort", "hung", "-p", "0", "--start-offset")
    assert "no open transaction begins at" in cluster.run(*where, "7", check=False).stderr
    tried = cluster.run(*where, "0", "--dry-run").stderr
    assert tried.startswith("would abort in hung-0: producer ")
    assert json.loads(cluster.run(*ask, check=False).stdout)[0]["start_offset"] == 0
    cluster.run(*where, "0")
    assert json.loads(cluster.run(*ask).stdout) == []
    assert consumed(cluster, "hung", "--isolation", "read_committed") == []

"""`produce` and `consume` in pipes, under signals and with typing errors: no record is lost, and no topic is created by
mistake.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from tests.cluster.processes import ROOT, LocalCluster, until
from trimaran.client.partitioner import partition_of_key
from trimaran.errors.user_error import Exit


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(
        tmp_path_factory.mktemp("pipes"), "--controllers", "1", "--brokers", "1"
    ) as cluster:
        for name, partitions in (("slow", 1), ("keyed", 5), ("spread", 4), ("cut", 1), ("big", 1)):
            cluster.run("topics", "create", name, "-p", partitions)
            cluster.wait_for_topic(name)
        yield cluster


@contextlib.contextmanager
def started(cluster, *words):
    """Starts a command with all streams piped; kills it if it is still running at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", "trimaran", *words, "--data", str(cluster.data)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def consumed(cluster, topic, *options):
    return cluster.run("consume", topic, "-e", *options).stdout.splitlines()


def test_line_of_open_pipe_is_delivered(cluster):
    with (
        started(cluster, "consume", "slow") as reader,
        started(cluster, "produce", "slow") as writer,
    ):
        for line in (b"first\n", b"second\n"):
            writer.stdin.write(line)
            assert reader.stdout.readline() == line
        writer.stdin.write(b"last, without an end")
        writer.stdin.close()
        assert reader.stdout.readline() == b"last, without an end\n"
        assert writer.stderr.read() == b"3 records acknowledged\n"
        assert writer.wait() == Exit.OK


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_lines_before_an_interrupt_are_delivered_and_counted(cluster, number):
    before = len(consumed(cluster, "cut"))
    with started(cluster, "produce", "cut") as writer:
        writer.stdin.write(b"one\n")
        until(lambda: len(consumed(cluster, "cut")) == before + 1, "it reads")
        writer.stdin.write(b"two\nthree\nunfini")
        writer.send_signal(number)
        said = writer.stderr.read().decode()
        assert writer.wait() == 128 + number
    found = len(consumed(cluster, "cut")) - before
    assert said.startswith(f"{found} record")
    assert found == 3 or "unfinished" not in said  # the signal may arrive before the lines are read


def test_keyed_lines_use_javas_partitions(cluster):
    keys = [f"key-{i}" for i in range(40)]
    cluster.run("produce", "keyed", "-k", ":", stdin="".join(f"{k}:{k}\n" for k in keys))
    for partition in range(5):
        expected = [k for k in keys if partition_of_key(k.encode(), 5) == partition]
        assert consumed(cluster, "keyed", "-p", partition) == expected
        assert expected


def test_keyless_lines_fill_batches_in_all_partitions(cluster):
    cluster.run("produce", "spread", stdin="".join(f"{i}\n" for i in range(2000)))
    assert {len(consumed(cluster, "spread", "-p", p)) for p in range(4)} == {500}


def test_long_lines_fit_the_brokers_limit(cluster):
    line = "x" * 100_000
    done = cluster.run("produce", "big", stdin=f"{line}\n" * 30)
    assert done.stderr == "30 records acknowledged\n"


def test_refused_line_is_counted_as_undelivered(cluster):
    done = cluster.run("produce", "big", stdin="fine\n" + "x" * 2_000_000 + "\n", check=False)
    assert done.returncode == Exit.REFUSED
    assert done.stderr.startswith("1 record acknowledged; 1 more may not have been")
    assert "MESSAGE_TOO_LARGE" in done.stderr


@pytest.mark.parametrize("options", [(), ("-e",), ("-p", "0")])
def test_reading_a_mistyped_topic_creates_none(cluster, options):
    done = cluster.run("consume", "typo", *options, check=False)
    assert done.returncode == Exit.REFUSED
    assert "there is no topic typo" in done.stderr
    assert "typo" not in [row["topic"] for row in cluster.json("topics", "list")]


def test_writing_creates_topic_if_brokers_do(cluster):
    cluster.run("produce", "made", stdin="x\n")
    assert consumed(cluster, "made") == ["x"]


@pytest.mark.parametrize("command", ["produce", "consume"])
@pytest.mark.parametrize("partition", ["7", "-1"])
def test_missing_partition_is_reported_at_once(cluster, command, partition):
    done = cluster.run(command, "slow", "-p", partition, check=False, stdin="x\n")
    assert done.returncode == Exit.USAGE
    assert f"topic slow has no partition {partition} (it has 1)" in done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("produce", "slow", "-k", ""), "-k cannot be ''"),
        (("produce", "slow", "-f", "no-such-file"), "no-such-file"),
        (("consume", "slow", "-n", "-1"), "-n cannot be '-1'"),
        (("consume", "slow", "-e", "--offset", "soon"), "'soon'"),
        (("consume", "slow", "-e", "--offset", "999"), "offset 999"),
        (("consume", "a b"), "a b"),
    ],
)
def test_invalid_arguments_are_reported(cluster, words, told):
    done = cluster.run(*words, check=False, stdin="x\n")
    assert done.returncode != Exit.OK
    assert told in done.stdout + done.stderr
    assert "that the node is running" not in done.stderr
    assert "bug in trimaran" not in done.stderr


def test_consume_ends_with_its_reader(cluster):
    cluster.run("produce", "made", stdin="y\n" * 10)
    with started(cluster, "consume", "made") as reader:
        reader.stdout.readline()
        reader.stdout.close()
        assert reader.wait(30) == Exit.OK
        assert reader.stderr.read() == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_consume_ends_at_signal_without_traceback(cluster, number):
    with started(cluster, "consume", "made") as reader:
        reader.stdout.readline()
        os.kill(reader.pid, number)
        assert reader.wait(30) == 128 + number
        assert reader.stderr.read() == b""

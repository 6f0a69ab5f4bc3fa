"""The twenty jobs of docs/operator_jobs.md, run line by line as printed."""

import re
import shlex
from pathlib import Path

import pytest

from tests.cluster.processes import ROOT, LocalCluster, until
from trimaran.cli.app import run

PAGE = (ROOT / "docs" / "operator_jobs.md").read_text()
JOBS = {
    int(number): re.findall(r"^trimaran (.*)$", text, re.MULTILINE)
    for number, text in re.findall(r"^## (\d+)\. (.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
}
# Session timeout after which a missing broker is fenced; the default is nine seconds.
OPTIONS = ("--override", "broker.session.timeout.ms=3000")
# The expected output of a job, apart from its exit codes.
SHOWN = {
    1: ["Healthy: 3 voters caught up, 3 brokers active"],
    2: ["high_watermark", "leader", "observer", "GAP-BEFORE"],
    3: ["would create orders: 3 partitions, 3 replicas", "created orders: 3 partitions"],
    4: ["20 records acknowledged", "k7:value 7"],
    5: ["orders-0 at "],
    6: ["min.insync.replicas=2", "offsets      20"],
    7: ["orders has 6 partitions"],
    8: ["1209600000", "changed topic/orders: retention.ms"],
    9: ["would change broker", "changed broker", "2000000"],
    10: ["audit: Empty, 0 members, 20 records behind"],
    11: ["nothing was changed"],
    12: ["online", "configs        message.max.bytes=2000000"],
    13: ["killed broker-12", "fenced", "under-replicated"],
    14: ["started broker-12"],
    15: ["nothing was changed"],
    16: ["would move; nothing was changed", "reassignment started", "reassignment complete"],
    17: ["producer_byte_rate"],
    18: ["SCRAM-SHA-512", "can no longer log in"],
    19: ["orders", "PartitionRegistration(replicas=", "TopicRecord"],
    20: ["deleted group audit", "would delete orders: 6 partitions", "deleted orders"],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with LocalCluster(tmp_path_factory.mktemp("jobs"), *OPTIONS) as cluster:
        yield cluster


@pytest.fixture
def do(cluster, tmp_path, monkeypatch, capfdbinary):
    """Returns a function that runs a line of the page and returns its output."""
    monkeypatch.chdir(tmp_path)
    Path("lines.txt").write_text("".join(f"k{n}:value {n}\n" for n in range(20)))
    Path("password.txt").write_text("correct horse\n")
    monkeypatch.setattr("signal.signal", lambda *_: None)  # keep this process's handlers

    def ended(words):
        with pytest.raises(SystemExit) as end:
            run([*words, "--data", str(cluster.data)])
        shown = capfdbinary.readouterr()
        return end.value.code, shown.out.decode(), shown.err.decode()

    def do(line):
        command, _, expected = line.partition(" # ")
        command, _, file = command.partition(" > ")
        words, wanted = shlex.split(command), int(expected or 0)
        # Brokers catch up asynchronously, so reading commands are repeated until they show the result.
        reads = wanted or words[:2] in (["reassign", "verify"], ["groups", "lag"])
        last = []

        def is_done():
            last[:] = ended(words)
            return last[0] == wanted or not reads

        until(is_done, line, 60)
        assert last[0] == wanted, (line, last)
        if file:
            Path(file.strip()).write_text(last[1])
        return last[1] + last[2]

    return do


def test_page_has_twenty_jobs():
    assert list(JOBS) == list(SHOWN) == list(range(1, 21))
    assert all(JOBS.values())


def test_every_job_works_as_on_the_page(do):
    """The jobs run in order, because each uses the results of the previous ones."""
    for number, lines in JOBS.items():
        shown = "".join(map(do, lines))
        assert [text for text in SHOWN[number] if text not in shown] == [], (number, shown)

"""Share groups of Java's clients 4.4 (`java/ShareCases.java`) on Apache Kafka 4.4 and on our cluster: both have the
outcomes of the table. `REWRITE_TRANSCRIPTS=1` writes the table from the outcomes on Apache Kafka.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.interop import apache_kafka, java_programs, share_clusters

FILE = Path(__file__).parent / "share_cases.txt"
TABLE = dict(line.split("\t") for line in FILE.read_text().splitlines())
FAULTS = {
    "leader-is-killed": "{0=ok} true [later*1, v1*1, v3*1, v5*1, v7*1, v9*1] {0=ok}",
    "brokers-are-killed": "200 accepted, 0 of them delivered again",
}
AT_A_TIME = 6
SECONDS_MAX = 1200


@pytest.fixture(scope="module", params=["kafka", "ours"])
def cluster(request, tmp_path_factory):
    if reason := java_programs.why_not():
        pytest.skip(reason)
    with share_clusters.running(request.param, tmp_path_factory.mktemp("shares")) as found:
        yield found


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    return java_programs.compiled("ShareCases", tmp_path_factory.mktemp("classes"))


def started(classes, cluster, *arguments):
    line = java_programs.command(classes, "ShareCases", cluster.bootstrap, *arguments, heap="512m")
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def outcomes(request, classes, cluster):
    """Returns the outcome of each case without faults."""
    with started(classes, cluster, AT_A_TIME) as program:
        told, _ = program.communicate(timeout=SECONDS_MAX)
    if os.environ.get("REWRITE_TRANSCRIPTS") and isinstance(cluster, share_clusters.Kafkas):
        FILE.write_text("".join(sorted(told.splitlines(keepends=True))))
    return dict(line.split("\t") for line in told.splitlines())


def test_table_has_all_cases(outcomes):
    assert outcomes.keys() == TABLE.keys()


@pytest.mark.client("Java", "groups", version=apache_kafka.VERSION)
@pytest.mark.parametrize("case", TABLE)
def test_outcome_is_that_of_kafka(outcomes, case):
    assert outcomes[case] == TABLE[case]


@pytest.mark.parametrize("case", FAULTS)
def test_outcome_with_killed_brokers(classes, cluster, case):
    with started(classes, cluster, 1, case) as program:
        for line in program.stdout:
            words = line.rstrip("\n").split("\t")
            if len(words) == 2:
                assert words == [case, FAULTS[case]]
                break
            _, verb, broker = line.split()
            {"kill": cluster.kill, "start": cluster.start}[verb](int(broker))
            program.stdin.write("done\n")
            program.stdin.flush()
        else:
            pytest.fail("ended without an outcome")

"""`storage format|info` and `quorum voters` as a user calls them; their requests to a quorum are tested in
tests/interop.
"""

import pytest

from tests.cluster.processes import trimaran
from trimaran.client import quorum_voters
from trimaran.wire.messages.describe_quorum import (
    DescribeQuorumResponsePartitionData,
    ReplicaState,
)

ID = "5L6g3nShT-eMCtK--X86sw"
pytestmark = pytest.mark.slow


def run(*words):
    return trimaran(*words, check=False)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "1.properties"
    path.write_text(
        "process.roles=controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=h:9093\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:9093\nlog.dirs={tmp_path / 'data'}\n"
    )
    return path


def test_dynamic_quorum_is_formatted_and_inspected(config):
    refused = run("storage", "format", "-t", ID, "-c", config)
    assert refused.returncode != 0
    assert "--standalone" in refused.stderr
    assert run("storage", "info", "-c", config).returncode == 1
    both = run("storage", "format", "-t", ID, "-c", config, "--standalone", "-N")
    assert both.returncode != 0
    done = run("storage", "format", "-t", ID, "-c", config, "--standalone", "-f", "kraft.version=1")
    assert done.returncode == 0, done.stderr
    info = run("storage", "info", "-c", config)
    assert info.returncode == 0
    assert "kraft.version=1 voters={1}" in info.stdout


def test_release_is_chosen_once(config):
    format_ = ("storage", "format", "-t", ID, "-c", config, "--standalone", "-r", "4.2")
    twice = run(*format_, "-f", "metadata.version=4.3")
    assert twice.returncode != 0
    assert "metadata.version is chosen twice" in twice.stderr
    done = run(*format_)
    assert "metadata.version 4.2-IV1" in done.stderr


def test_dry_run_formats_nothing_but_checks(config, tmp_path):
    format_ = ("storage", "format", "-t", ID, "-c", config, "--standalone")
    before = sorted(tmp_path.rglob("*"))
    asked = run(*format_, "--dry-run")
    assert asked.returncode == 0, asked.stderr
    assert f"Would format {tmp_path / 'data'} with metadata.version" in asked.stderr
    assert sorted(tmp_path.rglob("*")) == before
    run(*format_)
    refused, asked = run(*format_), run(*format_, "--dry-run")
    assert refused.returncode == asked.returncode != 0
    assert refused.stderr == asked.stderr
    assert "is already formatted" in asked.stderr
    assert run(*format_, "--dry-run", "-g").stderr == ""


def test_dry_run_is_refused_like_the_disk(config, tmp_path):
    (tmp_path / "data").write_text("a file")
    format_ = ("storage", "format", "-t", ID, "-c", config, "--standalone")
    refused, asked = run(*format_), run(*format_, "--dry-run")
    assert refused.returncode == asked.returncode != 0
    assert "cannot use" in asked.stderr


def quorum(voters, observers):
    def replicas(ids):
        return [ReplicaState(replica_id=node_id, log_end_offset=5) for node_id in ids]

    return DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=1,
        leader_epoch=3,
        high_watermark=5,
        current_voters=replicas(voters),
        observers=replicas(observers),
    )


@pytest.mark.parametrize(
    ("voters", "observers", "words"),
    [([1, 2], [], "still a voter"), ([1], [2], "registers again"), ([1], [3], None), ([2], [2], "voter")],
)  # fmt: skip
def test_controller_that_may_return_is_explained(voters, observers, words):
    why = quorum_voters.why_it_may_return(2, quorum(voters, observers))
    assert (words in why) if words else not why

"""Streams over a topic that is deleted and created again, on Apache Kafka and on our cluster: our source notices it,
and its checkpoint and the one of Spark's own source are exchanged.
"""

import json
import subprocess
import sys

import pytest

from tests.interop.spark_recreated_job import TOPIC


def runs(bootstrap, folder, *directory):
    command = [sys.executable, "-m", "tests.interop.spark_recreated_job", bootstrap, str(folder)]
    done = subprocess.run(
        [*command, *map(str, directory)], capture_output=True, text=True, check=False, timeout=1500
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return [
        json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")
    ], done.stderr


def assert_noticed(found, stderr):
    first, theirs, back, refused, again, nothing = found
    id_key = next(key for key in first["offsets"] if key.startswith(f"{TOPIC}@"))
    assert first["offsets"] == {TOPIC: {"0": 200, "1": 0}, id_key: {}}
    assert (theirs["source"], theirs["values"], theirs["rows"]) == ("kafka", ["second"], 30)
    assert theirs["offsets"] == {TOPIC: {"0": 230, "1": 0}}
    assert (back["values"], back["rows"]) == (["third"], 40)
    assert back["offsets"] == {TOPIC: {"0": 270, "1": 0}, id_key: {}}
    assert f"the checkpoint has no topic id of {TOPIC}" in stderr
    assert f"{TOPIC} was deleted and created again" in refused["error"]
    assert refused["rows"] == 0
    assert (again["error"], again["values"], again["rows"]) == (None, ["new"], 500)
    assert again["offsets"][TOPIC] == {"0": 500}
    assert id_key not in again["offsets"]
    assert "the new one is read from its beginning" in stderr
    assert (nothing["error"], nothing["rows"]) == (None, 0)


@pytest.mark.parametrize("where", ["live", "directory"])
def test_streams_over_topics_of_apache_kafka(kafka, tmp_path, where):
    directory = (kafka.directory,) if where == "directory" else ()
    assert_noticed(*runs(kafka.bootstrap, tmp_path, *directory))


def test_streams_over_topics_of_ours(ours, tmp_path):
    assert_noticed(*runs(ours.bootstrap, tmp_path))

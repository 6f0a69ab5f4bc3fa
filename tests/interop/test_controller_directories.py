"""A controller's directory goes from Apache Kafka 3.9 and 4.4 to us and back, and from us to them: the quorum continues
from its previous state.
"""

import json
import shutil
import time

import pytest

from tests.interop.conftest import trimaran
from tests.interop.fixtures.kafkas import OneNode
from tests.interop.test_written_directories import Us, create
from tests.librdkafka import AdminClient

VERSIONS = ("3.9.1", "4.4.0")
# The newest metadata.version of each.
LEVELS = {"3.9.1": 21, "4.4.0": 33}


def topics_at(bootstrap, wanted):
    """Waits until the server, which has just started, lists all the topics; returns them."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + 60
    while True:
        found = admin.list_topics(timeout=10).topics
        if wanted <= set(found) and all(
            p.leader == 1 for t in wanted for p in found[t].partitions.values()
        ):
            return {name for name in found if not name.startswith("__")}
        assert time.monotonic() < deadline, f"{set(found)} instead of {wanted}"
        time.sleep(0.1)


def state(node):
    """Returns our reading of the directory: (topic ids, how many epochs there were, metadata.version)."""
    image = json.loads(trimaran("metadata", "image", str(node.data), "-o", "json").stdout)
    epochs = json.loads(trimaran("quorum", "history", str(node.data), "-o", "json").stdout)
    topics = {name: topic["topic_id"] for name, topic in image["topics"].items()}
    assert "0 problems" in trimaran("metadata", "verify", str(node.data)).stdout
    return topics, len(epochs), image["features"]["metadata.version"]


def take_turns(node, *turns):
    """Starts each server in turn: it must have the topics of its predecessors, and creates one."""
    known, epochs, level = {}, 0, None
    for number, turn in enumerate(turns):
        with node.running() if turn == "kafka" else Us(node) as bootstrap:
            assert topics_at(bootstrap, set(known)) == set(known)
            create(bootstrap, f"{turn}-{number}")
        topics, epochs_now, level_now = state(node)
        assert topics == {**known, f"{turn}-{number}": topics[f"{turn}-{number}"]}
        assert epochs_now > epochs
        assert level in (None, level_now)
        known, epochs, level = topics, epochs_now, level_now
    return level


@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_directory_works_here_and_back_again(version, tmp_path):
    node = OneNode(version, tmp_path)
    assert take_turns(node, "kafka", "ours", "kafka", "ours") == LEVELS[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_our_directory_works_there_and_back_again(version, tmp_path):
    node = OneNode(version, tmp_path)
    shutil.rmtree(node.data)
    cluster_id = trimaran("storage", "random-uuid").stdout.strip()
    chosen = f"metadata.version={LEVELS[version]}"
    trimaran("storage", "format", "-t", cluster_id, "-c", str(node.file), "--feature", chosen)
    assert take_turns(node, "ours", "kafka", "ours") == LEVELS[version]

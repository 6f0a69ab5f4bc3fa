"""Published bugs of clients: each plan shows the bug in the old version, and the mended version survives it."""

import tomllib

import pytest

from tests.interop.client_bugs.fetched_clients import run_with, why_not
from tests.interop.client_bugs.table import BUGS
from trimaran.testing import EmbeddedKafka

EACH_BUG = pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.issue.rpartition("/")[2])


@pytest.fixture(scope="module")
def node():
    with EmbeddedKafka({"auto.create.topics.enable": "false"}) as running:
        yield running


def line_with(node, bug, version, folder):
    """Returns what the program prints under the plan, after checking that the plan had an effect."""
    if (reason := why_not(bug)) is not None:
        pytest.skip(reason)
    node.faults.clear()
    topic = node.create_topic(f"bug-{BUGS.index(bug)}-{version}")
    if bug.is_ready_plan:
        rules = node.faults.add_plan(bug.plan)
    else:
        rules = [node.faults.add(**tomllib.loads(bug.plan))]
    try:
        line = run_with(bug, version, folder, node.bootstrap, topic)
        assert any(rule.applied for rule in rules), line
    finally:
        node.faults.clear()
    return line


@EACH_BUG
def test_old_version_has_the_bug(node, bug, tmp_path):
    assert line_with(node, bug, bug.old, tmp_path) == bug.shown


@EACH_BUG
def test_mended_version_survives_the_plan(node, bug, tmp_path):
    assert line_with(node, bug, bug.mended, tmp_path) == bug.passed

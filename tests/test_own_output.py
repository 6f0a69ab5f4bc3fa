"""A run with workers reports output from outside of its tests, and fails if so configured; and tests pass a logger
to every client of librdkafka, which writes at any time.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# A client's thread writes at any time: here after the worker has ended all of its tests.
CONFTEST = """
import os, subprocess
from tests.own_output import watch as pytest_configure

def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        return
    os.write(2, b"%3|FAIL| from a thread\\n")
    subprocess.run(["sh", "-c", "echo from a process >&2"])
"""
TESTS = "import os\ndef test_one():\n    os.write(2, b'kept by pytest')\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wanted", "code"), [("fail", pytest.ExitCode.TESTS_FAILED), ("", pytest.ExitCode.OK)]
)
def test_output_beside_tests_is_shown_and_may_fail(tmp_path, wanted, code):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OWN_OUTPUT": wanted},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert done.stderr == ""
    _, found, told = done.stdout.partition("written beside the tests")
    assert found, done.stdout
    assert "%3|FAIL| from a thread\n" in told
    assert "from a process\n" in told
    assert "1 passed" in told
    assert "kept by pytest" not in told


def clients_without_logger(text: str) -> Iterator[str]:
    """Yields the clients of librdkafka that a file imports from confluent_kafka itself."""
    clients = {"Producer", "Consumer", "AdminClient"}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("confluent_kafka"):
            yield from clients & {name.name for name in node.names}
        elif isinstance(node, ast.Attribute) and node.attr in clients:
            name = ast.unparse(node.value)
            if name.startswith("confluent_kafka"):
                yield node.attr


@pytest.mark.parametrize(
    "line",
    [
        "from confluent_kafka import Producer",
        "from confluent_kafka.admin import AdminClient as Admin",
        "import confluent_kafka; confluent_kafka.Consumer({})",
    ],
)
def test_client_without_logger_is_detected(line):
    assert len(list(clients_without_logger(line))) == 1


def test_tests_make_clients_of_librdkafka_with_a_logger():
    # `./dev chaos` runs a program: its standard error is its own.
    programs = {ROOT / "tests" / "librdkafka.py", *(ROOT / "tests" / "chaos").rglob("*.py")}
    found = {
        str(path.relative_to(ROOT)): clients
        for path in (ROOT / "tests").rglob("*.py")
        if path not in programs and "confluent_kafka" in (text := path.read_text())
        if (clients := list(clients_without_logger(text)))
    }
    assert found == {}, "import them from tests.librdkafka"

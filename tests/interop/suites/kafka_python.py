"""kafka-python's own integration tests, from its sdist. The sdist lacks the files that start servers;
`for_kafka_python/` replaces them. The fixtures start a server for each module, with SASL and TLS if a test needs them;
the scripts in `bin/` run either ours or Apache Kafka.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.suites import kafka_home, python_tests
from tests.interop.suites.building import command

NAME = "kafka-python"
VERSION = "3.0.12"
NEEDS = (*kafka_home.NEEDS, "tar", "openssl", "keytool")
STARTS_NODES = True
PINNED = (
    "crc32c==2.9.post0",
    "lz4==4.4.5",
    "py==1.11.0",
    "pytest==9.2.0",
    "pytest-mock==3.17.0",
    "pytest-timeout==2.4.0",
    "python-snappy==0.7.3",
    "zstandard==0.25.0",
)
OF_OURS = Path(__file__).parent / "for_kafka_python"
RUN_SECONDS_MAX = 1800
# Scripts that format and start our server in place of Kafka's.
STORAGE = """#!/bin/sh
exec {python} -m trimaran storage "$@" --override sasl.enabled.mechanisms=PLAIN
"""
RUN_CLASS = """#!/bin/sh
exec {python} -m trimaran server start -c "$2"
"""


def source() -> Path:
    """Returns the folder of the unpacked sdist and of its environment, which are fetched once."""
    folder = CACHE / f"kafka-python-{VERSION}"
    complete = folder / "complete"
    found = folder / f"kafka_python-{VERSION}"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder / "venv", with_pip=True)
        pip = (str(folder / "venv" / "bin" / "python"), "-m", "pip", "-q")
        command(*pip, "install", *PINNED, folder=folder)
        no_wheel = ("--no-deps", "--no-binary", ":all:", f"kafka-python=={VERSION}")
        command(*pip, "download", *no_wheel, folder=folder)
        (archive,) = folder.glob("*.tar.gz")
        command("tar", "xf", str(archive), folder=folder)
        (found / "test" / "__init__.py").touch()  # otherwise Python's own `test` would be imported
        complete.touch()
    resources = found / "servers" / "resources" / "default"
    resources.mkdir(parents=True, exist_ok=True)
    for file in OF_OURS.iterdir():
        if file.is_file() and not file.name.startswith("__"):
            shutil.copy(file, found / "test" if file.suffix == ".py" else resources)
    return found


def run(kind: str, work: Path, only: Iterable[str] = ()) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are names. The output stays in `work`."""
    home = kafka_home.write(work / "kafka")
    if kind == "ours":
        for name, script in (("kafka-storage", STORAGE), ("kafka-run-class", RUN_CLASS)):
            (home / "bin" / f"{name}.sh").write_text(script.format(python=sys.executable))
    folder, report = source(), work / "report.xml"
    environ = {
        **os.environ,
        "KAFKA_ROOT": str(home),
        "KAFKA_VERSION": KAFKA_VERSION,
        "SUITE_KIND": kind,
    }
    chosen = ["-k", " or ".join(only)] if only else []
    with (work / "pytest.log").open("wb") as log:
        subprocess.run(
            [folder.parent / "venv" / "bin" / "python", "-m", "pytest", "-p", "no:cacheprovider",
             "--timeout=600", "-q", "test/integration", f"--junitxml={report}", *chosen],
            cwd=folder, env=environ, stdout=log, stderr=log, check=False, timeout=RUN_SECONDS_MAX,
        )  # fmt: skip
    return python_tests.states(report)

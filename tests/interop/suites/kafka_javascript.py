"""The tests of @confluentinc/kafka-javascript's promises API. The npm package does not contain them, so they come from
a checkout: `--sources FOLDER` with `confluent-kafka-javascript`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.suites import javascript, sources
from tests.interop.suites.building import command

NAME = "kafka-javascript"
# Earlier versions seek one message too low when they discard their cache, and deliver this message twice: with 1.10.0
# the test "does not hold up polling for non-message events" failed in 3 of 4 runs on ours and 2 of 4 on Kafka; with
# 1.10.1 in one of 13, on Kafka.
VERSION = "1.10.1"
NEEDS = ("node", "npm", "npx", "bash", "make", "g++", "python3")
SOURCES = "confluent-kafka-javascript"
PACKAGES = (f"@confluentinc/kafka-javascript@{VERSION}", "jest@29.7.0")
# Otherwise the build fetches the sources of OpenSSL and other libraries.
BUILD = {"CKJS_LINKING": "dynamic"}
PATIENCE = 6
RUN_SECONDS_MAX = 2400


def library() -> Path:
    """Returns the package with its binding to librdkafka, which is built once."""
    folder = CACHE / f"kafka-javascript-{VERSION}"
    package = folder / "node_modules" / "@confluentinc" / "kafka-javascript"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        javascript.install(folder, *PACKAGES)
        for script in ("configure", "lds-gen.py"):  # npm packages lack file modes
            (package / "deps" / "librdkafka" / script).chmod(0o755)
        environ = {**javascript.headers(), **BUILD}
        # gyp's rules need the files that this writes.
        command("bash", "configure", folder=package, environ=environ)
        install = ("npx", "--no-install", "node-pre-gyp", "install", "--build-from-source")
        command(*install, folder=package, environ=environ)
        complete.touch()
    return package


def run(
    bootstrap: str, work: Path, only: Iterable[str] = (), *, protocol: str = "classic"
) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are parts of names. `protocol` is that of consumer
    groups. Output stays in `work`.
    """
    package = library()
    checkout = sources.folder(SOURCES)
    assert checkout
    folder = work / "package"
    shutil.copytree(checkout / "test", folder / "test")
    javascript.be_patient(folder, PATIENCE)
    (folder / "lib").symlink_to(package / "lib", target_is_directory=True)
    environ = {
        **os.environ,
        "KAFKA_HOST": bootstrap,
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
    }
    options = (
        "--config={}",
        f"--testTimeout={5000 * PATIENCE}",
        f"--rootDir={folder}",
        f"--maxWorkers={javascript.AT_ONCE}",
        "test/promisified",
    )
    program = package.parents[1] / ".bin" / "jest"
    return javascript.jest(program, folder, work, environ, options, only, RUN_SECONDS_MAX)

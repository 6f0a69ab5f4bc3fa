"""librdkafka's own integration tests, in full mode; the source is in the npm package of its JavaScript client."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.interop.apache_kafka import CACHE
from tests.interop.apache_kafka import VERSION as KAFKA_VERSION
from tests.interop.suites import kafka_home
from tests.interop.suites.building import command

NAME = "librdkafka"
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
VERSION = "2.15.1"
NEEDS = (*kafka_home.NEEDS, "npm", "tar", "make", "g++", "python3", "javac")
# Test 0171 compresses with zstd. Its headers are in Debian's libzstd-dev, which `configure` names if it is missing.
CONFIGURE = ("./configure", "--disable-gssapi", "--disable-curl", "--enable-zstd")
# Test 0174 has waits that `test.timeout.multiplier` does not multiply: two minutes for 10,000 requests one after the
# other, half a minute for the last records. Its authors chose them for a dedicated machine.
HURRIED = "0174-share_consumer_concurrency.c"
WAITS = (
    r"(max_wait_ticks = )(config->max_attempts > 0 \? config->max_attempts : 240)(?=;)",
    r"(wait_attempts += )(60)(?=;)",
    r"(stale_limit = )(10)(?=;)",
    r"(join_poll_ticks += )(10)(?=;)",
)
PATIENCE = 8
# Limit for one test number, with its processes. The tests have their own limits: that of 0174 is the longest, 1,500 s
# times `test.timeout.multiplier`.
TEST_SECONDS_MAX = 4800
# The tests spend most of their time waiting, and have their own topics and groups.
AT_ONCE = 4
CONF = """bootstrap.servers={bootstrap}
broker.address.family=v4
test.timeout.multiplier=3
test.topic.random=true
"""


def tests_folder() -> Path:
    """Returns the folder with the test runner, which is built once."""
    folder = CACHE / f"librdkafka-{VERSION}"
    source = folder / "package" / "deps" / "librdkafka"
    complete = folder / "complete"
    built = repr((CONFIGURE, WAITS, PATIENCE))
    if not complete.exists() or complete.read_text() != built:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        command("npm", "pack", "--silent", PACKAGE, folder=folder)
        (archive,) = folder.glob("*.tgz")
        command("tar", "xf", str(archive), folder=folder)
        # npm packages lack file modes.
        for script in ("configure", "lds-gen.py", "tests/java/run-class.sh"):
            (source / script).chmod(0o755)
        _be_patient(source / "tests" / HURRIED)
        environ = {**os.environ, "CPLUS_INCLUDE_PATH": str(_rapidjson(folder))}
        command(*CONFIGURE, environ=environ, folder=source)
        command("make", "-j2", "libs", environ=environ, folder=source)
        command("make", "-j2", "test-runner", environ=environ, folder=source / "tests")
        complete.write_text(built)
    return source / "tests"


def _be_patient(file: Path) -> None:
    text = file.read_text()
    for wait in WAITS:
        text, found = re.subn(wait, rf"\g<1>{PATIENCE} * (\2)", text)
        assert found == 1, f"{file} has no {wait}"
    file.write_text(text)


def _rapidjson(folder: Path) -> Path:
    """Returns the folder for RapidJSON's headers, which are from Debian's package if it is available; four tests are
    skipped without them.
    """
    if shutil.which("apt-get"):
        download = ["apt-get", "download", "-qq", "rapidjson-dev"]
        subprocess.run(download, cwd=folder, capture_output=True, check=False)
        for package in folder.glob("*.deb"):
            command("dpkg", "-x", package.name, "headers", folder=folder)
    return folder / "headers" / "usr" / "include"


def names(scenario: str = "") -> set[str]:
    """Returns the tests in `test.c` with a number below 1000 that need a broker and no manual steps; if a scenario is
    named, only those of the scenario.
    """
    source = (tests_folder() / "test.c").read_text()
    declared = re.findall(
        r"^ {4}_TEST\((0\d{3}_\w+),\s*([^,)]*)(.*?)(?=^ {4}\S)", source, re.MULTILINE | re.DOTALL
    )
    return {
        name
        for name, flags, rest in declared
        if not re.search("LOCAL|MANUAL", flags)
        and (not scenario or f'.scenario = "{scenario}"' in rest)
    }


def run(
    bootstrap: str,
    work: Path,
    only: Iterable[str] = (),
    *,
    options: Sequence[str] = (),
    scenario: str = "",
    security: str = "",
    without: Iterable[str] = (),
) -> dict[str, str]:
    """Returns `passed`, `failed` or `skipped` by test name; `only` are numbers. The output stays in `work`. `options`
    are those of the test runner, `without` numbers to omit. `security` are settings of the tests' clients, with their
    own bootstrap servers; tools use `bootstrap`, which is plaintext.
    """
    home = kafka_home.write(work / "kafka")
    conf = work / "test.conf"
    conf.write_text(CONF.format(bootstrap=bootstrap) + security)
    if scenario:
        options = (*options, "-s", scenario)
    environ = {
        **os.environ,
        "BROKERS": bootstrap,
        "KAFKA_PATH": str(home),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "RDKAFKA_TEST_CONF": str(conf),
        "TEST_KAFKA_VERSION": KAFKA_VERSION,
    }
    _run_java_build(environ)
    expected = {name for name in names(scenario) if name[:4] not in without}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(
            lambda number: _one(number, work, environ, options),
            only or sorted({n[:4] for n in expected}),
        )
        states = {name: state for part in found for name, state in part.items()}
    return {name: state for name, state in states.items() if name in expected}


def _run_java_build(environ: dict[str, str]) -> None:
    """Builds the files that two tests would otherwise build at the same time."""
    subprocess.run(
        ["make", "-s", "java"], cwd=tests_folder(), env=environ, check=True, capture_output=True
    )


def _one(
    number: str, work: Path, environ: dict[str, str], options: Sequence[str]
) -> dict[str, str]:
    report = work / f"{number}.json"
    environ = {**environ, "TESTS": number, "TEST_REPORT": str(report)}
    with (work / f"{number}.log").open("wb") as log:
        runner = subprocess.Popen(
            ["./test-runner", "-L", "-p1", *options],
            cwd=tests_folder(),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            runner.wait(TEST_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            runner.kill()
            runner.wait()
        log.write(f"the runner ended with {runner.returncode}\n".encode())
    return _states(number, report)


def _states(number: str, report: Path) -> dict[str, str]:
    of_number = [name for name in names() if name.startswith(f"{number}_")]
    try:
        tests = json.loads(report.read_text())["tests"]
    except (OSError, ValueError):  # the runner crashed, or was killed
        return dict.fromkeys(of_number, "failed")
    return {name: tests[name]["state"].lower() for name in of_number}

"""The programs of docs/faults_http.md in Go, JavaScript, Java and JUnit, each with a Kafka that it breaks itself."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.interop import apache_kafka, franz_go
from tests.interop.environments import environment
from tests.interop.manual import blocks, write_programs
from tests.interop.suites import javascript
from tests.interop.suites.building import command
from trimaran.fault_control.openapi import document

PAGE = "faults_http.md"
CLIENT = "kafkajs@2.2.4"
JUNIT = ("org.junit.platform", "junit-platform-console-standalone", "1.11.4")
LAUNCHER = "org.junit.platform.console.ConsoleLauncher"
# The programs start `python`, which has to be this one.
ENVIRON = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def check_output(kind, folder, *words):
    """Runs the program of a language, and compares its output with the block below it on the page."""
    write_programs(PAGE, kind, folder, "")
    assert command(*words, folder=folder, environ=ENVIRON) in blocks(PAGE)


@pytest.mark.skipif(franz_go.why_not() is not None, reason="needs go on the PATH")
def test_go_producer_retries_after_leader_moved(tmp_path):
    franz_go.copy_module(tmp_path)
    check_output("go", tmp_path, "go", "run", "retries.go")


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm on the PATH")
def test_javascript_producer_writes_twice_unless_idempotent(tmp_path):
    javascript.link_modules("fault-recipes", CLIENT, tmp_path)
    check_output("javascript", tmp_path, "node", "twice.mjs")


def test_java_consumer_commits_again_while_coordinator_loads(tmp_path):
    check_output("java", tmp_path, "java", "-cp", apache_kafka.class_path(), "Commits.java")


def test_junit_test_passes_with_lost_response(tmp_path):
    write_programs(PAGE, "java", tmp_path, "")
    jars = apache_kafka.fetched("junit-1.11.4", (JUNIT,))
    path = os.pathsep.join(["classes", f"{jars}/*", apache_kafka.class_path()])
    command("javac", "-d", "classes", "-cp", path, "RetriesTest.java", folder=tmp_path)
    words = ("java", "-cp", path, LAUNCHER, "execute", "--disable-banner", "-c", "RetriesTest")
    assert "1 tests successful" in command(*words, folder=tmp_path, environ=ENVIRON)


def test_openapi_document_is_valid(tmp_path):
    programs = environment("openapi", ["openapi-spec-validator==0.9.0"])
    file = tmp_path / "openapi.json"
    file.write_text(json.dumps(document()))
    told = command(str(programs / "openapi-spec-validator"), str(file), folder=tmp_path)
    assert told.endswith("OK\n")

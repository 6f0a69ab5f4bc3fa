"""Errors that Kafka Streams 4.4 gets for unsupported features; `suites/applications/` tests the supported ones."""

import subprocess

import pytest

from tests.interop import java_programs

CALL_SECONDS = 60


def test_kip_1071_protocol_is_refused_with_a_message(ours, tmp_path):
    """`group.protocol=streams` is not served: the application ends with the reason."""
    if reason := java_programs.why_not():
        pytest.skip(reason)
    ours.run("topics", "create", "lines", "-p", "3", "-r", "3")
    program = java_programs.compiled("Topologies", tmp_path)
    arguments = (ours.bootstrap, "kip1071", tmp_path, "streams")
    line = java_programs.command(program, "Topologies", *arguments)
    done = subprocess.run(line, capture_output=True, text=True, timeout=CALL_SECONDS, check=False)
    assert done.returncode == 1, done.stdout
    assert "UnsupportedVersionException" in done.stdout, done.stdout
    assert "does not support" in done.stdout, done.stdout

"""Failures of the mirror as users see them, in full; and the settings of a file."""

from pathlib import Path

import pytest

from tests.datadriven import check_transcript
from trimaran.client.zookeeper import explained, properties_of
from trimaran.errors.user_error import UserError
from trimaran.wire.client.errors import AuthenticationRefused
from trimaran.zkcompat.commands import errors
from trimaran.zkcompat.zookeeper.server_process import ZooKeeperUnavailableError

FAILURES = {
    "cannot-start": ZooKeeperUnavailableError("no Java"),
    "unreachable": errors.ZooKeeperUnreachableError("it does not answer"),
    "refused": errors.ZNodeRefusedError("/a: NoAuth"),
    "quorum-unreachable": errors.QuorumUnreachableError("no controller answers"),
    "quorum-breaks-off": errors.QuorumUnreachableError("the connection to h:1 broke: EOF"),
    "sasl": AuthenticationRefused("wrong password"),
    "tls": AuthenticationRefused("h:1: TLS with h:1 failed: expired"),
    "locked": errors.MirrorLockedError("another mirror uses d"),
    "too-old": errors.ZooKeeperTooOldError("3.5"),
    "wrong-cluster": errors.WrongClusterError("of cluster c"),
    "wrong-value": ValueError("x is not host:port"),
}


def test_failures_match_their_texts():
    seen = []

    def run(step):
        seen.append(step.command)
        with pytest.raises(UserError) as told, explained():
            raise FAILURES[step.command]
        return f"{told.value}\n  exit code: {told.value.exit_code.name}"

    check_transcript(Path(__file__).parent / "testdata/zookeeper.txt", run)
    assert sorted(seen) == sorted(FAILURES)


def test_internal_error_stays_unchanged():
    with pytest.raises(KeyError), explained():
        raise KeyError("x")


def test_settings_of_a_file_are_resolved(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET", "s")
    file = tmp_path / "file"
    file.write_text("a=1\nb=${env:SECRET}\n")
    assert properties_of(None) == {}
    assert properties_of(file)["a"] == "1"
    assert set(properties_of(file)) == {"a", "b"}

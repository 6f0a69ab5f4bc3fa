import errno
import os
import socket

import pytest

from trimaran.errors.node import explain
from trimaran.errors.ports import listener_on
from trimaran.errors.refused import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.directories.directory_lock import DirectoryLocked
from trimaran.log.directories.meta_properties import MetaPropertiesError
from trimaran.log.durability.health import StorageFailure
from trimaran.node.config.config_def import ConfigError
from trimaran.node.runtime.errors import WrongCluster
from trimaran.quorum.raft_log.supported_levels import MetadataTooNew
from trimaran.wire.errors import ErrorCode, KafkaError

CAUSES = [
    (ConfigError("node.id", "x", "must be a whole number", origin="f:3"), "f:3", Exit.USAGE),
    (MetaPropertiesError("d is missing: the directory is not formatted"), "format", Exit.NO),
    (MetaPropertiesError("d belongs to node 1, this process is of node 2"), "node.id", Exit.NO),
    (MetaPropertiesError("d holds a metadata log, and e"), "metadata.log.dir to", Exit.NO),
    (DirectoryLocked("d is in use by another process"), "in use", Exit.NO),
    (StorageFailure("d is offline"), "repair", Exit.NO),
    (WrongCluster("this directory is of cluster a"), "cluster a", Exit.REFUSED),
    (MetadataTooNew("metadata.version is 33"), "upgrade trimaran", Exit.TOO_NEW),
    (KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk"), "log.dirs", Exit.NO),
    (FileNotFoundError(errno.ENOENT, "No such file", "/nowhere"), "/nowhere", Exit.NO),
]


@pytest.mark.parametrize(("cause", "word", "exit_code"), CAUSES, ids=lambda c: type(c).__name__)
def test_causes_that_users_can_fix_are_explained(cause, word, exit_code):
    told = explain(ExceptionGroup("", [ExceptionGroup("", [cause])]))
    assert told is not None
    assert word in str(told)
    assert told.exit_code == exit_code
    assert len(str(told).splitlines()) == 3


def test_internal_error_is_not_explained():
    assert explain(ExceptionGroup("", [KeyError("x")])) is None


def test_explained_error_stays_unchanged():
    error = UserError("a", "b", "c")
    assert explain(error) is error


def test_listening_process_is_named():
    lower = os.open(os.devnull, os.O_RDONLY)
    with socket.create_server(("127.0.0.1", 0)) as server:
        # The directory that lists our descriptors is opened under the lowest number, and is listed although closed.
        os.close(lower)
        port = server.getsockname()[1]
        assert "process" in (listener_on(port) or "")
        told = explain(OSError(errno.EADDRINUSE, "Address already in use", f"127.0.0.1:{port}"))
        assert told is not None
        assert f"127.0.0.1:{port}" in told.what
        assert "process" in told.why
    with socket.socket() as bound:  # no other process can bind its port, and it does not listen
        bound.bind(("127.0.0.1", 0))
        assert listener_on(bound.getsockname()[1]) is None


def test_full_disk_is_named_as_such():
    told = explain(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert told.what == "the disk is full"
    assert "free some space" in told.fix


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "correct what is named"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "add an ACL that allows it"),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topics list"),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, "quorum status"),
    ],
)
def test_refusal_by_cluster_has_a_remedy(code, hint):
    told = refused(KafkaError(code, code.name))
    assert told.why == code.name
    assert hint in told.fix

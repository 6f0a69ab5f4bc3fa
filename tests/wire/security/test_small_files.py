"""Files named by settings: only regular ones are read, up to a limit."""

import os
import socket

import pytest

from tests.checks import check_each
from tests.descriptors import end_after_free
from trimaran.wire.security.small_files import read_small_file
from trimaran.wire.security.tls.contexts import TlsError, TlsSettings, client_context


def test_regular_file_is_read_whole(tmp_path):
    (tmp_path / "store").write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    assert read_small_file(tmp_path / "store", 10) == b"0123456789"
    assert read_small_file(str(tmp_path / "link")) == b"0123456789"


def test_file_that_grows_without_end_is_refused(tmp_path):
    (tmp_path / "store").write_bytes(b"0123456789")
    with pytest.raises(OSError, match="larger than 9 bytes"):
        read_small_file(tmp_path / "store", 9)


def test_file_is_closed_after_read_and_refusal(tmp_path):
    (tmp_path / "store").write_bytes(b"0123456789")
    before = end_after_free(1)
    read_small_file(tmp_path / "store", 10)
    for path, bytes_max in ((tmp_path / "store", 9), (tmp_path, 10)):
        with pytest.raises(OSError, match=r"larger|regular file"):
            read_small_file(path, bytes_max)
    assert end_after_free(1) == before


@pytest.fixture
def others(tmp_path):
    """Returns files that are not regular."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        yield [
            tmp_path / "fifo",
            tmp_path / "directory",
            tmp_path / "socket",
            "/dev/zero",
            "/dev/null",
        ]


def test_non_regular_file_is_refused_at_once(others):
    def is_refused(path):
        with pytest.raises(OSError, match=r"regular file|No such device"):
            read_small_file(path)

    check_each(others, is_refused)


def test_non_regular_store_is_named_with_key(others):
    def is_refused(path):
        with pytest.raises(TlsError) as caught:
            client_context(TlsSettings(truststore_type="PEM", truststore_location=str(path)))
        assert caught.value.key == "ssl.truststore.location"
        assert str(path) in caught.value.why

    check_each(others, is_refused)

"""Failure of a log directory: the first reason stays, and watchers are called once."""

import re
import threading
from errno import EIO
from pathlib import Path

import pytest

from trimaran.log.durability.health import DirectoryHealth
from trimaran.wire.errors import ErrorCode, KafkaError

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("broker", "log", "node", "quorum", "spark", "trimaran", "wire", "zkcompat")


def test_first_reason_stays():
    health = DirectoryHealth()
    assert health.fail("first").code is ErrorCode.KAFKA_STORAGE_ERROR
    assert health.fail("second").message == "second"
    assert health.offline == "first"


def test_each_watcher_is_called_once_with_reason_set():
    health, seen = DirectoryHealth(), []
    health.watch(lambda: seen.append(("a", health.offline)))
    health.watch(lambda: seen.append(("b", health.offline)))
    health.fail("gone")
    health.fail("again")
    assert seen == [("a", "gone"), ("b", "gone")]


def test_watcher_is_called_in_failing_thread():
    health, seen = DirectoryHealth(), []
    health.watch(lambda: seen.append(threading.get_ident()))

    def write():
        with pytest.raises(OSError, match="no disk"), health.guard_raw("writing"):
            raise OSError(EIO, "no disk")

    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert seen == [thread.ident]
    assert health.offline == "writing: [Errno 5] no disk"


def test_directory_that_is_offline_runs_nothing():
    health = DirectoryHealth()
    health.fail("gone")
    for guard, error in (
        (health.guard, KafkaError),
        (health.guard_names, KafkaError),
        (health.guard_raw, OSError),
    ):
        with pytest.raises(error, match="gone"), guard("reading"):
            pytest.fail("it ran")


def test_only_health_takes_a_directory_offline():
    found = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if not path.is_relative_to(ROOT / "trimaran" / room)
        and re.search(r"\.offline = ", path.read_text())
    }
    assert found == {"log/durability/health.py"}

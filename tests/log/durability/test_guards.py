"""Guards of storage calls: the error that each raises, and whether the directory stays in service."""

from __future__ import annotations

import errno

import pytest

from trimaran.log.durability.health import DirectoryHealth
from trimaran.wire.errors import ErrorCode, KafkaError

NAME, DISK = errno.ENOTDIR, errno.EIO


@pytest.mark.parametrize(
    ("guard", "number", "is_raw", "goes_offline"),
    [
        ("guard", NAME, False, True),
        ("guard", DISK, False, True),
        ("guard_names", NAME, False, False),
        ("guard_names", DISK, False, True),
        ("guard_raw", NAME, True, True),
        ("guard_raw", DISK, True, True),
    ],
)
def test_guard_turns_each_error_into_its_own(guard, number, is_raw, goes_offline):
    health, watched = DirectoryHealth(), []
    health.watch(lambda: watched.append(health.offline))
    cause = OSError(number, "refused", b"\xff".decode(errors="surrogateescape"))
    with pytest.raises(OSError if is_raw else KafkaError) as caught:
        with getattr(health, guard)("reading t-0"):
            raise cause
    if is_raw:
        assert caught.value is cause
    else:
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert caught.value.__cause__ is cause
        assert caught.value.message.startswith(f"reading t-0: [Errno {number}] refused")
    assert (health.offline is not None) is goes_offline
    assert watched == ([health.offline] if goes_offline else [])


@pytest.mark.parametrize("guard", ["guard", "guard_names", "guard_raw"])
def test_guard_lets_other_errors_and_success_pass(guard):
    health = DirectoryHealth()
    with getattr(health, guard)("reading"):
        pass
    with pytest.raises(ValueError, match="a bug"), getattr(health, guard)("reading"):
        raise ValueError("a bug")
    health.check()
    assert health.offline is None


@pytest.mark.parametrize("guard", ["guard", "guard_names"])
def test_error_codes_pass_a_guard_unchanged(guard):
    health, error = DirectoryHealth(), KafkaError(ErrorCode.INVALID_REQUEST)
    with pytest.raises(KafkaError) as caught, getattr(health, guard)("reading"):
        raise error
    assert caught.value is error
    assert health.offline is None


def test_check_raises_the_first_reason():
    health = DirectoryHealth()
    assert health.fail("first").code is ErrorCode.KAFKA_STORAGE_ERROR
    assert health.fail("second").message == "second"
    with pytest.raises(KafkaError, match="first") as caught:
        health.check()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR

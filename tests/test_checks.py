import pytest

from tests.checks import assert_only_raises, check_each


def test_every_failure_names_its_thing():
    def check(number):
        assert number % 2

    check_each([1, 3], check)
    with pytest.raises(ExceptionGroup, match="2 of 4 fail") as raised:
        check_each([1, 2, 3, 4], check)
    assert [error.__notes__[0] for error in raised.value.exceptions] == ["for 2", "for 4"]


def test_checking_nothing_is_a_failure():
    with pytest.raises(AssertionError, match="nothing was checked"):
        check_each([], print)


def test_unexpected_error_is_a_failure():
    assert_only_raises(ValueError, lambda: int("1"))
    assert_only_raises(ValueError, lambda: int("one"))
    with pytest.raises(AssertionError, match="KeyError"):
        assert_only_raises(ValueError, lambda: {}["one"])

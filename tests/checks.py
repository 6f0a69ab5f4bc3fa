"""Assertions shared by tests of many packages."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def check_each(things: Iterable[T], check: Callable[[T], object]) -> None:
    """Checks one claim about many things in one test: all are checked, and failures are reported separately.

    Raises the failures of `check(thing)` as one group, each with its thing as a note; nothing to check fails too."""
    failures, count = [], 0
    for thing in things:
        count += 1
        try:
            check(thing)
        except Exception as error:  # noqa: BLE001 - raised below, beside those of the others
            error.add_note(f"for {thing}")
            failures.append(error)
    assert count, "nothing was checked"
    if failures:
        raise ExceptionGroup(f"{len(failures)} of {count} fail", failures)


def assert_only_raises(
    errors: type[Exception] | tuple[type[Exception], ...], call: Callable[[], object]
) -> None:
    """Calls with any input: the call may succeed or raise one of these errors, and no other."""
    try:
        call()
    except errors:
        return
    except Exception as error:
        raise AssertionError(f"{error!r} is no refusal") from error

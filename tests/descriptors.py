"""Free descriptor numbers of this process: other tests may hold any number, so the free ones are not consecutive."""

import functools
import gc
import itertools
import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def end_after_free(count: int) -> int:
    """Returns the lowest number below which `count` more descriptors can be opened: each gets the lowest free number.

    For a count of 0 it is 0, below which no descriptor can be opened, even if a thread of another test closes one
    meanwhile.
    """
    gc.collect()  # existing garbage would release its numbers later
    free = (number for number in itertools.count() if not is_open(number))
    return max(itertools.islice(free, count), default=-1) + 1


def by_itself(test: Callable[..., object]) -> Callable[..., None]:
    """Runs a test in a child of this process, in which no thread of another test opens or closes descriptors."""

    @functools.wraps(test)
    def forked(*args: object, **fixtures: object) -> None:
        if (child := os.fork()) == 0:
            status = 1
            try:
                test(*args, **fixtures)
                status = 0
            except Exception:  # noqa: BLE001 - told to the test
                traceback.print_exc()
            finally:
                os._exit(status)  # its output does not reach the test runner
        assert os.waitpid(child, 0)[1] == 0, (
            "failed in a child; its traceback is in the captured output"
        )

    return forked


@contextmanager
def holes(count: int, apart: int = 20) -> Iterator[None]:
    """Returns `count` free numbers among used ones, `apart` numbers apart."""
    opened = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(count * apart)]
    free = set(opened[::apart])
    for number in free:
        os.close(number)
    try:
        yield
    finally:
        for number in opened:
            if number not in free:
                os.close(number)

"""Numbers of this process's descriptors, of which other tests may hold any: the free ones are not in a row."""

import gc
import itertools
import os
from collections.abc import Iterator
from contextlib import contextmanager


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def end_after_free(count: int) -> int:
    """The lowest number below which `count` more descriptors can be opened: each gets the lowest that is free.

    Of none it is 0, below which none ever can be: also when a thread of another test closes one meanwhile.
    """
    gc.collect()  # what is garbage already would give back its numbers later
    free = (number for number in itertools.count() if not is_open(number))
    return max(itertools.islice(free, count), default=-1) + 1


@contextmanager
def holes(count: int, apart: int = 20) -> Iterator[None]:
    """`count` free numbers among taken ones, so many numbers apart."""
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

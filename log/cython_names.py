"""Replacements of the names in the `cython` module, for machines on which the compiled files of `log` run as plain
Python.

These names are built into the compiler, which never reads this file; in interpreted code they have no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

compiled = False
int = longlong = ulonglong = uchar = bint = Py_ssize_t = object()  # noqa: A001 - its name


class _NoGil:
    """The decorator and the context manager `nogil`."""

    def __call__(self, function: T) -> T:
        return function

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def _same(thing: T) -> T:
    return thing


nogil = _NoGil()
cclass = final = cfunc = inline = _same


def exceptval(*_: Any, **__: Any) -> Callable[[T], T]:
    return _same


def boundscheck(_is_on: bool) -> Callable[[T], T]:
    return _same


def cast(_type: object, value: T) -> T:
    return value


def declare(_type: object, value: T) -> T:
    return value

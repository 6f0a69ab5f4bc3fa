"""Counts the Python calls of one thread: the called functions, their files, and the number of calls of each.

Counts do not depend on the machine. `sys.setprofile` reports each call of a Python function, including a resumed
generator, and each call of a C function; only the former are counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_PRODUCT = f"{ROOT / 'trimaran'}/"


class Counts(NamedTuple):
    """Calls of Python functions, and the numbers of called functions of the product and of their files. `marked` calls
    came before the last `mark`. `entered` are the product's functions in the order of their first calls, each with its
    first caller.
    """

    calls: int
    functions: int
    files: int
    marked: int
    by_function: Counter[str]
    entered: dict[CodeType, CodeType | None]


class Calls:
    """Collects the calls of the thread that enters `counting`, from one `take` to the next."""

    def __init__(self) -> None:
        self._codes: Counter[CodeType] = Counter()
        self._callers: dict[CodeType, CodeType | None] = {}
        self.total = 0
        self._marked = 0

    def mark(self) -> None:
        self._marked = self.total

    def take(self) -> Counts:
        codes, self._codes = self._codes, Counter()
        callers, self._callers = self._callers, {}
        marked, self._marked, self.total = self._marked, 0, 0
        for code in [code for code in codes if code.co_filename == __file__ or _leaves(code)]:
            del codes[code]
        own = [code for code in codes if code.co_filename.startswith(_PRODUCT)]
        named = Counter[str]()
        for code, times in codes.items():
            named[f"{code.co_filename.removeprefix(f'{ROOT}/')}:{code.co_qualname}"] += times
        files = {code.co_filename for code in own}
        entered = {code: callers[code] for code in own}
        return Counts(codes.total(), len(own), len(files), marked, named, entered)

    @contextmanager
    def counting(
        self, called_c: Callable[[Any], object] = lambda _function: None
    ) -> Iterator[None]:
        """Collects the calls within the block; `called_c` receives each called C function."""

        def profile(frame: FrameType, event: str, argument: Any) -> None:
            if event == "call":
                code, caller = frame.f_code, frame.f_back
                if code not in self._callers:
                    self._callers[code] = caller and caller.f_code
                self._codes[code] += 1
                self.total += 1
            elif event == "c_call":
                called_c(argument)

        sys.setprofile(profile)
        try:
            yield
        finally:
            sys.setprofile(None)


def _leaves(code: CodeType) -> bool:
    """Whether the call ends the block of `counting`."""
    return code.co_qualname == "_GeneratorContextManager.__exit__"

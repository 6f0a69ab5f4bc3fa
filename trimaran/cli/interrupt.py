"""Lets a command finish what it has begun when it receives SIGINT (Ctrl-C), SIGTERM or SIGHUP."""

from __future__ import annotations

import os
import signal
from typing import Self


class Interrupt:
    """Waits for the first SIGINT, SIGTERM or SIGHUP; the second one ends the program as usual."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.fd, self._writer = os.pipe()  # readable after the signal
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        os.close(self.fd)
        os.close(self._writer)

    def _on_signal(self, number: int, _frame: object) -> None:
        self.number = number
        self._restore()
        os.write(self._writer, b"!")

    def _restore(self) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)  # type: ignore[arg-type]

"""Finds slow steps of the loop: a task that computes or blocks for a long time delays all other tasks.

A trio instrument measures every step, from one checkpoint of a task to the next; during a slow step a thread records
the task's stack. It costs about a microsecond a step, so it is disabled by default.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import NamedTuple

import trio

from trimaran.node import events
from trimaran.wire.transport.metrics.limited_log import LimitedLog

log = logging.getLogger(__name__)

# The number of innermost frames of a step that are logged.
_FRAMES_MAX = 12


class SlowStep(NamedTuple):
    """A slow step. `cpu_seconds` is far below `seconds` if the step waited for a disk, or the machine ran other
    processes.

    `stack` is the stack at the time of the sample, innermost frame last; empty if the step ended just then.
    """

    task: str
    seconds: float
    cpu_seconds: float
    stack: tuple[str, ...]

    def __str__(self) -> str:
        where = " < ".join(reversed(self.stack)) or "unknown"
        took = f"{self.seconds * 1000:.0f} ms ({self.cpu_seconds * 1000:.0f} ms CPU)"
        return f"{self.task} held the loop for {took}: {where}"


class SlowSteps(trio.abc.Instrument):
    """An instrument for `trio.run(…, instruments=[…])` or `trio.lowlevel.add_instrument`; `on_slow` is called when a
    slow step has ended.
    """

    def __init__(self, seconds_max: float, on_slow: Callable[[SlowStep], object]) -> None:
        self._seconds_max = seconds_max
        self._on_slow = on_slow
        self._began = 0.0
        self._began_cpu = 0.0
        self._stepping = False
        self._stack: tuple[str, ...] = ()
        self._loop_thread = threading.get_ident()
        self._ended = threading.Event()

    def start(self) -> None:
        """Starts sampling. Trio calls it for instruments of `trio.run`; for others the caller must, in the loop's
        thread.
        """
        self._loop_thread = threading.get_ident()
        threading.Thread(target=self._watch, name="slow steps", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def before_run(self) -> None:
        self.start()

    def after_run(self) -> None:
        self.stop()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:  # noqa: ARG002 - of the interface
        self._stack = ()
        self._began_cpu = time.thread_time()
        self._began = time.perf_counter()
        self._stepping = True

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if not self._stepping:  # the step in which the instrument was added
            return
        self._stepping = False
        seconds = time.perf_counter() - self._began
        if seconds > self._seconds_max:
            cpu_seconds = time.thread_time() - self._began_cpu
            self._on_slow(SlowStep(task.name, seconds, cpu_seconds, self._stack))

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds_max / 4):
            began = self._began
            late = time.perf_counter() - began > self._seconds_max / 2
            if self._stepping and late and not self._stack:
                stack = _stack_of(sys._current_frames().get(self._loop_thread))  # noqa: SLF001 - there is no other way
                if self._began == began:
                    self._stack = stack


def _stack_of(frame: FrameType | None) -> tuple[str, ...]:
    frames = traceback.StackSummary.extract(
        traceback.walk_stack(frame), limit=_FRAMES_MAX, lookup_lines=False
    )
    ours = [
        each_frame
        for each_frame in frames
        if "/trio/" not in each_frame.filename and "/outcome/" not in each_frame.filename
    ]
    return tuple(
        f"{_short(each_frame.filename)}:{each_frame.lineno} {each_frame.name}"
        for each_frame in reversed(ours)
    )


def _short(path: str) -> str:
    return "/".join(path.rsplit("/", 3)[1:])


def logging_slow_steps(milliseconds: int) -> SlowSteps:
    """Returns an instrument that logs slow steps at a limited rate."""
    limited = LimitedLog(log)

    def report(step: SlowStep) -> None:
        limited.log(events.SLOW_STEP, step=step)

    return SlowSteps(milliseconds / 1000, report)

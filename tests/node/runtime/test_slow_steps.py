"""The instrument finds the task that blocks the loop, and its stack."""

import logging
import sys
import threading
from types import SimpleNamespace

import pytest
import trio

from trimaran.node.runtime import slow_steps
from trimaran.node.runtime.slow_steps import SlowStep, SlowSteps, logging_slow_steps

BOUND = 0.02


def hold(seen):
    """Blocks the loop until the step is certainly slow and was sampled."""
    threading.Event().wait(BOUND * 10)
    seen.append("held")


def test_blocking_task_is_named_with_stack():
    seen, steps = [], []

    async def culprit():
        await trio.lowlevel.checkpoint()
        hold(seen)
        await trio.lowlevel.checkpoint()

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(culprit)

    trio.run(main, instruments=[SlowSteps(BOUND, steps.append)])
    named = [step for step in steps if "culprit" in step.task]
    assert len(named) == 1
    (step,) = named
    assert step.seconds >= BOUND * 10
    assert step.cpu_seconds < BOUND * 10
    assert any("hold" in frame for frame in step.stack)
    assert "culprit" in str(step)
    assert "hold" in str(step)


def test_waiting_does_not_count_as_blocking():
    steps = []

    async def main():
        await trio.to_thread.run_sync(hold, [])

    trio.run(main, instruments=[SlowSteps(BOUND, steps.append)])
    assert not [step for step in steps if "hold" in str(step.stack)]


class Clock:
    """A clock of a step and of its thread, advanced by the test."""

    now, cpu = 100.0, 7.0

    def perf_counter(self):
        return self.now

    def thread_time(self):
        return self.cpu


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(slow_steps, "time", found)
    return found


TASK = SimpleNamespace(name="a task")


@pytest.mark.parametrize("seconds", [0.0, 0.5, 0.75])
def test_only_steps_over_the_bound_are_reported(clock, seconds):
    told = []
    steps = SlowSteps(0.5, told.append)
    for _ in range(2):
        steps.before_task_step(TASK)
        clock.now += seconds
        clock.cpu += seconds / 4
        steps.after_task_step(TASK)
    expected = SlowStep("a task", seconds, seconds / 4, ())
    assert told == [expected] * (2 if seconds > 0.5 else 0)


def test_installing_step_is_not_reported(clock):
    told = []
    steps = SlowSteps(0.5, told.append)
    steps.after_task_step(TASK)
    steps.before_task_step(TASK)
    steps.after_task_step(TASK)
    clock.now += 9.0
    steps.after_task_step(TASK)
    assert told == []


class Looks:
    """A substitute for the event that the sampling thread waits for: each wait performs the next action of the test."""

    def __init__(self, *acts):
        self.acts, self.waited = list(acts), []

    def wait(self, seconds):
        self.waited.append(seconds)
        if not self.acts:
            return True
        self.acts.pop(0)()
        return False


@pytest.mark.parametrize(("late", "is_seen"), [(0.25, False), (0.375, True)])
def test_step_is_sampled_at_half_the_bound(clock, late, is_seen):
    told = []
    steps = SlowSteps(0.5, told.append)
    steps._loop_thread = threading.get_ident()

    def passes():
        clock.now += late

    steps._ended = Looks(lambda: None, passes)
    steps.before_task_step(TASK)
    steps._watch()
    assert steps._ended.waited == [0.125] * 3
    clock.now += 1.0
    steps.after_task_step(TASK)
    (step,) = told
    assert bool(step.stack) is is_seen
    if is_seen:
        assert step.stack[-1].endswith(" _watch")
        assert sum(" test_step_is_sampled_at_half_the_bound" in frame for frame in step.stack) == 1


def test_step_is_sampled_once(clock, monkeypatch):
    seen = []
    steps = SlowSteps(0.5, seen.append)

    def stack_of(frame):
        seen.append(frame is not None)
        return ("looked",)

    def passes():
        clock.now += 1.0

    monkeypatch.setattr(slow_steps, "_stack_of", stack_of)
    steps._ended = Looks(passes, passes, passes)
    steps._watch()
    assert seen == []
    steps.before_task_step(TASK)
    steps._ended = Looks(passes, passes, passes)
    steps._watch()
    assert (seen, steps._stack) == ([True], ("looked",))
    steps.before_task_step(TASK)
    assert steps._stack == ()


def test_step_ending_during_sample_has_no_stack(clock, monkeypatch):
    steps = SlowSteps(0.5, lambda _: None)

    def stack_of(_frame):
        steps.before_task_step(TASK)
        return ("of another step",)

    def passes():
        clock.now += 1.0

    monkeypatch.setattr(slow_steps, "_stack_of", stack_of)
    steps.before_task_step(TASK)
    began = steps._began
    steps._ended = Looks(passes)
    steps._watch()
    assert steps._began == began + 1.0
    assert steps._stack == ()


def test_stack_has_our_twelve_innermost_frames():
    def deeper(depth):
        if depth:
            return deeper(depth - 1)
        return slow_steps._stack_of(sys._getframe())

    found = deeper(20)
    assert len(found) == 12
    assert {frame.split()[1] for frame in found} == {"deeper"}
    assert {frame.split(":")[0] for frame in found} == {"node/runtime/test_slow_steps.py"}
    assert len(set(found[:-1])) == 1
    assert found[-1] != found[0]
    assert slow_steps._short("/a/b/c/d.py") == "b/c/d.py"


def test_step_is_reported_in_milliseconds_innermost_first():
    step = SlowStep("a task", 0.25, 0.0625, ("a.py:1 outer", "b.py:2 inner"))
    assert str(step) == "a task held the loop for 250 ms (62 ms CPU): b.py:2 inner < a.py:1 outer"
    assert str(step._replace(stack=())) == "a task held the loop for 250 ms (62 ms CPU): unknown"


async def test_slow_steps_are_logged_now_and_then(clock, caplog, autojump_clock):
    caplog.set_level(logging.INFO)
    steps = logging_slow_steps(250)
    for seconds in (0.25, 0.5, 0.5):
        steps.before_task_step(TASK)
        clock.now += seconds
        steps.after_task_step(TASK)
    (record,) = caplog.records
    assert "a task held the loop for 500 ms (0 ms CPU): unknown" in record.getMessage()


async def test_stack_has_no_frames_of_trio():
    found = slow_steps._stack_of(sys._getframe())
    assert found[-1].endswith(" test_stack_has_no_frames_of_trio")
    assert not [
        item for item in found if item.startswith(("trio/", "outcome/")) or "_core/" in item
    ]


def test_sampling_thread_does_not_keep_process_alive(monkeypatch):
    made = []
    steps = SlowSteps(0.5, lambda _: None)
    monkeypatch.setattr(
        threading, "Thread", lambda **how: SimpleNamespace(start=lambda: made.append(how))
    )
    steps.before_run()
    assert made == [{"target": steps._watch, "name": "slow steps", "daemon": True}]
    assert not steps._ended.is_set()
    steps.after_run()
    assert steps._ended.is_set()

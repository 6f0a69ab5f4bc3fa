"""Runs the tests of one mutant after another. Each mutant gets a process forked from this one, which has already
imported and collected everything. First, all tests run once under a tracer in such a process, so that each mutant is
tested only by tests that execute its lines; quick tests and those that killed a nearby mutant run first. `swap`
installs a mutant: the functions of its file get the code of the mutated file.
"""

import gc
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import TextIO

import pytest

from tests.mutation.declarations import declare
from tests.mutation.mutants import Mutant

KILLED, SURVIVED, TIMED_OUT, NOT_RUN = "killed", "survived", "timed out", "not run"
SURVIVED_STATUS, KILLED_STATUS, NOT_RUN_STATUS, CRASHED_STATUS = 0, 1, 2, 3
# A test counts as hung after this multiple of its traced duration plus PATIENCE_SECONDS, which allows for a busy
# machine.
SLOWER_MAX, PATIENCE_SECONDS = 5, 5
# A mutant's tests may take this many CPU seconds in total, whatever else the machine does; the slowest ones beyond that
# are omitted.
SECONDS_OF_MUTANT = 30
# Memory limit, for a mutant that grows a list without end.
MEMORY_BYTES_MAX = 6 << 30

Lines = dict[str, list[int]]


class Mutation:
    """A pytest plugin that replaces pytest's loop over the tests."""

    def __init__(
        self,
        mutants: list[Mutant],
        tell: Callable[[Mutant, str, str, float], None],
        patience_seconds: int = PATIENCE_SECONDS,
        seconds_of_mutant: int = SECONDS_OF_MUTANT,
    ) -> None:
        """`tell` is called for each mutant with its outcome, the deciding test, and the duration in seconds."""
        self._seconds_of_mutant = seconds_of_mutant
        self._mutants = mutants
        self._patience_seconds = patience_seconds
        self._tell = tell
        self._files = {str(mutant.path.absolute()) for mutant in mutants}
        self._failed = False
        self.left_out: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        seconds, cpu_seconds, lines = self._traced(session.items)
        users = _users_of_constants(self._files)
        killers: dict[str, list[str]] = defaultdict(list)
        functions = _functions_of(self._files)
        for mutant in self._mutants:
            told, began = killers[mutant.where], time.monotonic()
            tests = _tests_of(mutant, lines, users)
            chosen = _in_order(tests, cpu_seconds, told, self._seconds_of_mutant, mutant.asked_by)
            outcome, killer = self._run(
                mutant, [items[name] for name in chosen], seconds, functions
            )
            if killer and killer not in told:
                told.insert(0, killer)
            self._tell(mutant, outcome, killer, time.monotonic() - began)
        return True

    def _traced(
        self, items: list[pytest.Item]
    ) -> tuple[dict[str, float], dict[str, float], dict[str, Lines]]:
        """Returns seconds, CPU seconds and executed lines of each passing test; adds the other tests to `left_out`."""
        with tempfile.NamedTemporaryFile() as file:
            path = Path(file.name)
            status = _in_child(lambda: self._write_trace(items, path))
            if status != 0:
                raise pytest.UsageError("the tests cannot be run without a mutant")
            found = json.loads(path.read_text())
        self.left_out = [name for name, *_, lines in found if lines is None]
        passed = [result for result in found if result[3] is not None]
        names, *columns = zip(*passed, strict=True) if passed else [()] * 4
        seconds, cpu_seconds, lines = (dict(zip(names, column, strict=True)) for column in columns)
        return seconds, cpu_seconds, lines

    def _write_trace(self, items: list[pytest.Item], path: Path) -> int:
        path.write_text(json.dumps(list(self._trace(items))))
        return 0

    def _trace(self, items: list[pytest.Item]) -> Iterator[tuple[str, float, float, Lines | None]]:
        tracer = _Tracer(self._files)
        for item, following in _with_next(items):
            began, began_cpu = time.monotonic(), time.process_time()
            with tracer:
                self._test(item, following)
            took, took_cpu = time.monotonic() - began, time.process_time() - began_cpu
            yield item.nodeid, took, took_cpu, None if self._failed else tracer.taken()

    def _test(self, item: pytest.Item, following: pytest.Item | None) -> None:
        self._failed = False
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _run(
        self,
        mutant: Mutant,
        items: list[pytest.Item],
        seconds: dict[str, float],
        functions: dict[tuple[str, int], list[FunctionType]],
    ) -> tuple[str, str]:
        """Returns the outcome, and the test that killed the mutant. A constant that no test reaches is used only by
        class bodies, which are not executed again.
        """
        if not items:
            return (NOT_RUN if mutant.constant else SURVIVED), ""
        with tempfile.TemporaryFile("w+", buffering=1) as begun:
            status = _in_child(lambda: self._mutated(mutant, items, seconds, functions, begun))
            begun.seek(0)
            names = begun.read().splitlines()
        if not names:
            return NOT_RUN, ""
        last = json.loads(names[-1])
        if os.WIFSIGNALED(status):
            return (TIMED_OUT if os.WTERMSIG(status) == signal.SIGALRM else KILLED), last
        return (SURVIVED, "") if os.WEXITSTATUS(status) == SURVIVED_STATUS else (KILLED, last)

    def _mutated(
        self,
        mutant: Mutant,
        items: list[pytest.Item],
        seconds: dict[str, float],
        functions: dict[tuple[str, int], list[FunctionType]],
        begun: TextIO,
    ) -> int:
        """Runs in the child process and returns the exit status; writes down the name of each test before it begins."""
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        if not swap(mutant, functions):
            return NOT_RUN_STATUS
        for item, following in _with_next(items):
            begun.write(json.dumps(item.nodeid) + "\n")
            signal.alarm(self._patience_seconds + int(SLOWER_MAX * seconds[item.nodeid]))
            self._test(item, following)
            if self._failed:
                return KILLED_STATUS
        return SURVIVED_STATUS


def _in_child(work: Callable[[], int]) -> int:
    """Runs `work` in a forked process without output, which exits with its result; returns the wait status."""
    sys.stdout.flush()
    if (pid := os.fork()) != 0:
        return os.waitpid(pid, 0)[1]
    status = CRASHED_STATUS
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        status = work()
    finally:
        os._exit(status)  # an exception would run the parent's pytest loop in the child


class _Tracer:
    """Collects the executed lines of `files`, in all threads."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._seen: dict[str, set[int]] = defaultdict(set)

    def taken(self) -> Lines:
        seen, self._seen = self._seen, defaultdict(set)
        return {file: sorted(lines) for file, lines in seen.items()}

    def __enter__(self) -> None:
        threading.settrace(self._called)
        sys.settrace(self._called)

    def __exit__(self, *failure: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _called(self, frame, event, arg):
        if frame.f_code.co_filename not in self._files:
            return None
        return self._line(frame, event, arg)

    def _line(self, frame, event, arg):
        self._seen[frame.f_code.co_filename].add(frame.f_lineno)
        return self._line


def _with_next(items: list[pytest.Item]) -> Iterable[tuple[pytest.Item, pytest.Item | None]]:
    return zip(items, [*items[1:], None], strict=True)


def _in_order(
    tests: list[str],
    seconds: dict[str, float],
    killers: list[str],
    most: int,
    asked_by: tuple[str, ...],
) -> list[str]:
    """Returns the tests in order: the one that killed a mutant of the same function, then quick tests of `most` seconds
    in total, then those that check declarations, regardless of their duration.
    """
    tests = sorted(tests, key=lambda name: (name not in killers, seconds[name]))
    total, chosen = 0.0, []
    for name in tests:
        total += seconds[name]
        if total <= most or any(part in name for part in asked_by):
            chosen.append(name)
    return chosen


def _tests_of(
    mutant: Mutant, lines: dict[str, Lines], users: dict[str, set[tuple[str, int]]]
) -> list[str]:
    if mutant.constant:
        wanted = users[mutant.constant]
    else:
        wanted = {(str(mutant.path.absolute()), line) for line in mutant.lines}
    files = {file for file, _ in wanted}
    return [
        name
        for name, of_files in lines.items()
        if any(part in name for part in mutant.asked_by)
        or any((file, line) in wanted for file in files for line in of_files.get(file, ()))
    ]


def _functions_of(files: set[str]) -> dict[tuple[str, int], list[FunctionType]]:
    """Returns all functions of `files` by qualified name and first line, including those of copied classes."""
    found = defaultdict(list)
    gc.unfreeze()  # objects frozen by an earlier test are not listed
    for object_ in gc.get_objects():
        if isinstance(object_, FunctionType) and object_.__code__.co_filename in files:
            found[object_.__code__.co_filename, object_.__code__.co_firstlineno].append(object_)
    return found


def _users_of_constants(files: set[str]) -> dict[str, set[tuple[str, int]]]:
    """Returns the uses of constants in `files`, as file and line."""
    found = defaultdict(set)
    for functions in _functions_of(files).values():
        for function in functions:
            for code in _codes(function.__code__):
                for name in code.co_names:
                    if name.isupper():
                        found[name] |= {
                            (code.co_filename, line) for _, _, line in code.co_lines() if line
                        }
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def swap(mutant: Mutant, functions: dict[tuple[str, int], list[FunctionType]]) -> bool:
    """Installs the mutant in this process permanently; returns False if no object can receive it."""
    if mutant.constant:
        return _set_constant(mutant)
    file = str(mutant.path.absolute())
    if mutant.declared is not None:
        mutant.mutated_tree()
        held = functions[file, mutant.function_line]
        return declare(mutant.where.partition(":")[0], file, mutant.declared, held)
    code = compile(mutant.mutated_tree(), file, "exec", dont_inherit=True)
    name = mutant.where.partition(":")[2]
    mutated = [
        inner
        for inner in _codes(code)
        if inner.co_qualname == name and inner.co_firstlineno == mutant.function_line
    ]
    codes = _codes(mutated[0])
    replaced = [_replaced(code, functions[file, code.co_firstlineno]) for code in codes]
    return any(replaced)


def _replaced(code: CodeType, functions: list[FunctionType]) -> bool:
    """Gives the code to the functions of its name: one that another function has returned, as at import, is among them.
    Lambdas and comprehensions have no name of their own. Returns whether there are any.
    """
    found = [
        function
        for function in functions
        if function.__code__.co_qualname == code.co_qualname
        and function.__code__.co_freevars == code.co_freevars
        and not code.co_name.startswith("<")
    ]
    for function in found:
        function.__code__ = code
    return bool(found)


def _set_constant(mutant: Mutant) -> bool:
    """Sets the constant in every module that has it under its name, because an import copies the reference."""
    module = sys.modules.get(mutant.where.partition(":")[0])
    if module is None:
        return False
    old = getattr(module, mutant.constant)
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(mutant.constant) == old:
            setattr(other, mutant.constant, mutant.value)
    return True

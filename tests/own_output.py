"""Output of parallel test runs outside of pytest's own is shown in a section of its own at the end, and fails the run
if the environment says `OWN_OUTPUT=fail`.

Within a test pytest captures the standard streams, and shows them if the test fails. Between tests and at the end of a
process it captures nothing: then threads of clients write their log, a JVM its warnings, and an interpreter uncaught
errors.
"""

from __future__ import annotations

import os
import tempfile

import pytest

STDERR = 2


def watch(config: pytest.Config) -> None:
    """Watches the workers of a run, if any; `pytest_configure` of a conftest calls it before they start."""
    if config.getoption("dist", "no") != "no" and not hasattr(config, "workerinput"):
        config.pluginmanager.register(OwnOutput())


class OwnOutput:
    """Redirects the standard error of all workers, and of every process and thread below them, to a file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - until the session ends
        self._terminal = os.dup(STDERR)
        self._found: list[tuple[str, str]] = []
        self._end = 0
        self._fails = os.environ.get("OWN_OUTPUT") == "fail"
        os.dup2(self._file.fileno(), STDERR)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._look(f"until the {report.when} of {report.nodeid}")

    @pytest.hookimpl(trylast=True)  # pytest-xdist has ended the workers
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._look("when the workers ended")
        os.dup2(self._terminal, STDERR)
        os.close(self._terminal)
        self._file.close()
        if self._fails and self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._found:
            terminalreporter.section("written beside the tests", red=True, bold=True)
        for moment, text in self._found:
            terminalreporter.write_line(f"{moment}:", red=True)
            terminalreporter.write(text if text.endswith("\n") else f"{text}\n")

    def _look(self, moment: str) -> None:
        """Keeps the output since the last call. The writing processes share the file's position, so it is not moved."""
        written = os.pread(
            self._file.fileno(), os.fstat(self._file.fileno()).st_size - self._end, self._end
        )
        self._end += len(written)
        if written:
            self._found.append((moment, written.decode(errors="replace")))

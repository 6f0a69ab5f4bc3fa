"""Runs our commands, each in its own process, forked from one that has imported the command line and the servers.

Starting Python and importing takes a third of a second for each command, and more than a second if it starts nodes.
At its end a command waits for its threads, runs its exit handlers and flushes its output, as with `python -m trimaran`,
but frees no objects: that would copy all pages that it shares with the process it was forked from (50 ms). A test of
the start or the end itself, or of properties that only a child of the test's process has, uses `subprocess`.
"""

from __future__ import annotations

import atexit
import functools
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REQUEST_BYTES_MAX = 1 << 20
COMMAND_SECONDS_MAX = 60.0


def run(
    words: list[str],
    *,
    stdin: str | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    seconds: float = COMMAND_SECONDS_MAX,
) -> subprocess.CompletedProcess[str]:
    """Works like `subprocess.run` with pipes; `stdin` None means empty input. `environ` is the complete environment.

    Raises:
        subprocess.TimeoutExpired: the command ran for `timeout` seconds, and was killed.
    """
    request = {
        "words": words,
        "environ": dict(os.environ if environ is None else environ),
        "cwd": str(cwd or Path.cwd()),
    }
    ours, theirs = zip(*(os.pipe()[::step] for step in (-1, 1, 1, 1)), strict=True)
    try:
        _forker().ask(request, theirs)
    finally:
        for fd in theirs:
            os.close(fd)
    return _ended(words, ours, stdin or "", seconds)


def _ended(words, ends, stdin, seconds):
    to_write, *to_read = ends
    with ThreadPoolExecutor(4) as pool, open(to_read.pop()) as report:
        pool.submit(_write, to_write, stdin)
        out, err = (pool.submit(_read, fd) for fd in to_read)
        pid = int(report.readline())
        watchdog = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
        watchdog.start()
        try:
            code = int(report.readline())
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            raise
        finally:
            watchdog.cancel()
        if watchdog.finished.is_set() and code == -signal.SIGKILL:
            raise subprocess.TimeoutExpired(words, seconds, out.result(), err.result())
        return subprocess.CompletedProcess(words, code, out.result(), err.result())


def _read(fd):
    with open(fd) as file:
        return file.read()


def _write(fd, text):
    try:
        with open(fd, "w") as file:
            file.write(text)
    except BrokenPipeError:
        pass  # the command had read enough


class _Forker:
    """The process from which commands are forked; it ends with this one."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.commands", str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        atexit.register(self.close)

    def ask(self, request, fds) -> None:
        message = json.dumps(request).encode()
        assert len(message) <= REQUEST_BYTES_MAX
        with self._lock:
            socket.send_fds(self._channel, [message], fds)

    def close(self) -> None:
        with self._process:
            self._channel.close()


@functools.cache
def _forker() -> _Forker:
    return _Forker()


# The functions below run in the process from which commands are forked.


def main(channel: socket.socket) -> None:
    """Forks a command for each request, until the channel closes."""
    import trimaran.broker.process.server
    import trimaran.cli.app
    import trimaran.cli.connect
    import trimaran.quorum.controller.server
    import trimaran.running.node_process
    import trimaran.wire.blocking  # noqa: F401

    gc.collect()
    gc.freeze()  # otherwise a garbage collection in a forked command would copy these pages
    while True:
        message, fds, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, 4)
        if not message:
            return None
        if os.fork() == 0:
            channel.close()
            *ends, report = fds
            if _is_command(ends, report):
                return _command(**json.loads(message))
        for fd in fds:
            os.close(fd)
        _reap()


def _is_command(ends, report):
    """Returns True in the command. The process in between reports its id and exit code, and ends."""
    pid = os.fork()
    if pid == 0:
        os.close(report)
        for number, fd in enumerate(ends):
            os.dup2(fd, number)
            os.close(fd)
        return True
    for fd in (*ends, 0, 1, 2):
        os.close(fd)
    os.write(report, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _command(words, environ, cwd):
    from trimaran.cli import main

    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["trimaran", *words]
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        threading._shutdown()
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            raise ended from None  # the interpreter reports it
        os._exit(ended.code)


def _reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))

"""Clients of Kafka's own, as Java programs that take one turn for each line of their input, and answer each with the
nanoseconds that it took.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from bench.clusters import Cluster
from tests.interop import apache_kafka, java_programs


class JavaClients:
    """One lasting process of a program for each cluster, since a young JVM is slow."""

    def __init__(self, program: str, *arguments: str) -> None:
        """`program`: the name of a file beside this one; its arguments follow the bootstrap address."""
        self._program = str(Path(__file__).with_name(program))
        self._arguments = arguments
        self._running = ExitStack()
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes."""
        self._running.close()

    def turn(self, cluster: Cluster, *words: object) -> list[float]:
        """Runs a turn; returns the durations that the program measured, in seconds."""
        process = self._processes.get(cluster.bootstrap) or self._start(cluster.bootstrap)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(" ".join(map(str, words)) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, "the client has ended"
        return [int(each) / 1e9 for each in line.split()]

    def _start(self, bootstrap: str) -> subprocess.Popen[str]:
        command = apache_kafka.java(
            self._program, bootstrap, *self._arguments, path=java_programs.class_path()
        )
        pipe = subprocess.PIPE
        process = self._running.enter_context(
            subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        )
        self._running.callback(process.kill)
        self._processes[bootstrap] = process
        return process

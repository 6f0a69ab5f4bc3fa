"""Kafka's own Admin client in a separate process, which receives one action at a time (`Admin.java`)."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.interop import old_clients

VERSION = "2.8.2"
SOURCE = Path(__file__).with_name("Admin.java")


@dataclass(frozen=True)
class Outcome:
    """The outcome of an action: the name of its exception, which is empty after success."""

    error: str
    message: str = field(compare=False)


class Administrator:
    """A running client of one cluster."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def act(self, action: dict[str, Any]) -> Outcome:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(action) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the client ended at {action}"
        answer = json.loads(line)
        return Outcome(answer.get("error", ""), answer.get("message") or "")


@contextlib.contextmanager
def administrator(bootstrap: str) -> Iterator[Administrator]:
    command = ["java", "-Xmx256m", "-cp", f"{old_clients.libraries(VERSION)}/*", str(SOURCE)]
    with subprocess.Popen(
        [*command, bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        yield Administrator(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)

"""Apache Kafka's own codec in a separate process, which receives one line per question (see `Oracle.java` for the
answers).
"""

import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interop import apache_kafka

VERSIONS = ("4.4.0", "3.9.1")
SOURCE = Path(__file__).with_name("Oracle.java")


class Oracle:
    """A running oracle, which answers questions in order."""

    def __init__(self, version: str, process: subprocess.Popen[str]) -> None:
        self.version = version
        self._process = process

    def ask(self, questions: Sequence[dict]) -> list[dict]:
        """Returns all answers; a thread writes the questions, so that neither pipe fills up."""
        writer = threading.Thread(target=self._write, args=(questions,))
        writer.start()
        answers = [json.loads(self._process.stdout.readline()) for _ in questions]
        writer.join()
        return answers

    def _write(self, questions: Sequence[dict]) -> None:
        for question in questions:
            self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def running(version: str) -> Iterator[Oracle]:
    """Starts the codec of one version of Apache Kafka; Maven fetches missing jars."""
    jars = sorted(str(jar) for jar in apache_kafka.libraries(version).glob("*.jar"))
    jars = [jar for jar in jars if "slf4j-reload4j" not in jar]  # a second logger is not needed
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / SOURCE.name
        source.write_text(source_for(version))
        command = ["java", "-Xmx512m", "-cp", ":".join(jars), str(source)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        try:
            yield Oracle(version, process)
        finally:
            process.stdin.close()
            process.wait()
            process.stdout.close()


def source_for(version: str) -> str:
    """Returns the source for this version: classes of records moved to a package `internal` after Kafka 4.0, and
    utilities to `internals` in 4.4.
    """
    text = SOURCE.read_text()
    if version < "4":
        return text.replace(".record.internal.", ".record.").replace(".utils.internals.", ".utils.")
    return text

"""Apache Kafka's own codec in a process of its own, asked a line at a time (see `Oracle.java` for its answers)."""

import contextlib
import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.interop import apache_kafka

VERSIONS = ("4.3.0", "3.9.1")
SOURCE = Path(__file__).with_name("Oracle.java")


class Oracle:
    """A running oracle; answers come in the order of questions."""

    def __init__(self, version: str, process: subprocess.Popen[str]) -> None:
        self.version = version
        self._process = process

    def ask(self, questions: Sequence[dict]) -> list[dict]:
        """All answers; the questions are written beside, so that neither pipe fills up."""
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
    """The codec of one version of Apache Kafka; its jars are fetched by Maven when they are not there yet."""
    jars = sorted(str(jar) for jar in apache_kafka.libraries(version).glob("*.jar"))
    jars = [jar for jar in jars if "slf4j-reload4j" not in jar]  # one logger is enough
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
    """Record classes moved to a package `internal` after Kafka 4.0."""
    text = SOURCE.read_text()
    return text.replace(".record.internal.", ".record.") if version < "4" else text

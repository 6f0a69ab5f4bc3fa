"""Kafka's command-line tools in one JVM (`java/Tools.java`), for tests with many of them: each of the tools takes a
tenth of the time of a JVM of its own.
"""

import base64
import contextlib
import subprocess

from tests.interop import apache_kafka, java_programs


class WarmTools:
    """A JVM that runs one tool after the other."""

    def __init__(self, process):
        self._process = process

    def run(self, name, *words):
        """Returns the result of a tool, like `apache_kafka.tool(..., check=False)`."""
        line = "\t".join([apache_kafka.TOOLS[name], *map(str, words)])
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        code, out, error = self._process.stdout.readline().rstrip("\n").split("\t")
        texts = [base64.b64decode(text).decode() for text in (out, error)]
        return subprocess.CompletedProcess(line, int(code), *texts)


@contextlib.contextmanager
def warm_tools(folder):
    """Compiles the program into the folder and starts it; stops it at the end of the block."""
    path = java_programs.compiled("Tools", folder)
    line = java_programs.command(path, "Tools", heap="512m")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(line, **pipes, text=True) as process:
        yield WarmTools(process)
        process.stdin.close()

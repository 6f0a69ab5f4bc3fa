"""Java programs of ours (`java/*.java`) on Kafka's own libraries: compiled against the jars of a version, then run."""

import contextlib
import shutil
import signal
import subprocess
from pathlib import Path

from tests.interop import apache_kafka, old_clients

SOURCES = Path(__file__).parent / "java"
APPLICATIONS = tuple(
    ("org.apache.kafka", name, apache_kafka.VERSION) for name in ("kafka-streams", "connect-file")
)
# As small as they come: several engineers' clusters share a machine.
OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.log.org=warn")
STOP_SECONDS_MAX = 60


def class_path(version=apache_kafka.VERSION):
    """Kafka's libraries of a version; with Streams and the file connectors those of 4.3."""
    if version != apache_kafka.VERSION:
        return f"{old_clients.libraries(version)}/*"
    folder = apache_kafka.fetched(f"kafka-applications-{version}", APPLICATIONS)
    return f"{apache_kafka.libraries()}/*:{folder}/*"


def compiled(name, folder, version=apache_kafka.VERSION):
    """The class path with `java/NAME.java`, compiled into the folder."""
    path = class_path(version)
    if not (folder / f"{name}.class").exists():
        command = ["javac", "-nowarn", "-d", folder, "-cp", path, SOURCES / f"{name}.java"]
        subprocess.run(command, check=True)
    return f"{folder}:{path}"


def command(path, main, *arguments, heap="256m", version=apache_kafka.VERSION):
    opened = old_clients.OPENED if old_clients.number(version) < (3,) else []
    return ["java", f"-Xmx{heap}", *OPTIONS, *opened, "-cp", path, main, *map(str, arguments)]


@contextlib.contextmanager
def running(line, log):
    """A program that is ended with SIGTERM at the end of the block; its output is appended to the file `log`."""
    with Path(log).open("ab") as output:
        process = subprocess.Popen(line, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def why_not():
    """Why nothing can be compiled here; None when it can."""
    return None if shutil.which("javac") else "needs javac on the PATH"

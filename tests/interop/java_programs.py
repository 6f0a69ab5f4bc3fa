"""Our Java programs (`java/*.java`) on Kafka's own libraries: compiled with the jars of a version, then run."""

import contextlib
import shutil
import signal
import subprocess
from pathlib import Path

from tests.interop import apache_kafka, maven, old_clients

SOURCES = Path(__file__).parent / "java"
APPLICATIONS = (("org.apache.kafka", "kafka-streams", apache_kafka.VERSION),)
# The file connectors and MirrorMaker of 4.4 were not published, and those of 4.3 need its Connect.
CONNECT_VERSION = "4.3.0"
# The smallest possible heaps, because several clusters share a machine.
OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.log.org=warn")
STOP_SECONDS_MAX = 60


def class_path(version=apache_kafka.VERSION):
    """Returns the class path with Kafka's libraries of a version; for 4.4 with Streams."""
    if version != apache_kafka.VERSION:
        return f"{old_clients.libraries(version)}/*"
    folder = apache_kafka.fetched(f"kafka-applications-{version}", APPLICATIONS)
    return f"{apache_kafka.libraries()}/*:{folder}/*"


def connect_class_path(artifact):
    """Returns the class path of Kafka Connect with an artifact of its version, such as `connect-file`."""
    named = f"org.apache.kafka:{artifact}:{CONNECT_VERSION}"
    jars = maven.libraries(f"{artifact}-{CONNECT_VERSION}", (named,))
    return f"{jars}/*:{apache_kafka.class_path(CONNECT_VERSION)}"


def compiled(name, folder, version=apache_kafka.VERSION):
    """Compiles `java/NAME.java`, and the programs that it uses, into the folder; returns the class path with them."""
    path = class_path(version)
    if not (folder / f"{name}.class").exists():
        options = ("-nowarn", "-d", folder, "-cp", path, "-sourcepath", SOURCES)
        subprocess.run(["javac", *options, SOURCES / f"{name}.java"], check=True)
    return f"{folder}:{path}"


def command(path, main, *arguments, heap="256m", version=apache_kafka.VERSION):
    opened = old_clients.OPENED if old_clients.number(version) < (3,) else []
    return ["java", f"-Xmx{heap}", *OPTIONS, *opened, "-cp", path, main, *map(str, arguments)]


@contextlib.contextmanager
def running(line, log):
    """Runs a program until the end of the block, which sends SIGTERM; appends its output to the file `log`."""
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
    """Returns the reason why nothing can be compiled here; None if it can."""
    return None if shutil.which("javac") else "needs javac on the PATH"

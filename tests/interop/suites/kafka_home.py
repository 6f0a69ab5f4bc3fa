"""A directory like an unpacked Apache Kafka: its `bin/kafka-*.sh` run Kafka's own tools from their jars."""

from pathlib import Path

from tests.interop.apache_kafka import TOOLS, class_path, libraries

NEEDS = ("java", "mvn")

SCRIPT = """#!/bin/sh
exec java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.slf4j.simpleLogger.defaultLogLevel={level} \\
  $KAFKA_OPTS -cp "{classes}${{CLASSPATH:+:$CLASSPATH}}" {main} "$@"
"""


def write(folder: Path) -> Path:
    """Creates `folder` with the scripts and jars; returns it."""
    scripts = folder / "bin"
    scripts.mkdir(parents=True, exist_ok=True)
    (folder / "libs").symlink_to(libraries(), target_is_directory=True)
    mains = {f"kafka-{name}": main for name, main in TOOLS.items()} | {"kafka-run-class": ""}
    for name, main in mains.items():
        script = scripts / f"{name}.sh"
        # That script starts servers, and callers wait for lines in their logs.
        level = "error" if main else "info"
        script.write_text(SCRIPT.format(classes=class_path(), main=main, level=level))
        script.chmod(0o755)
    return folder

"""Console clients of Kafka 0.8 to 3.9, as users ran them; Maven fetches the jars into the same cache as for
`apache_kafka`.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop.apache_kafka import CACHE

SCALA = {
    "0.8.2.2": "2.11",
    "0.9.0.1": "2.11",
    "0.10.2.2": "2.12",
    "0.11.0.3": "2.12",
    "1.1.1": "2.12",
    "2.1.1": "2.12",
    "2.8.2": "2.13",
    "3.9.1": "2.13",
}
# Those whose console clients are run; of 2.1 only the brokers are.
VERSIONS = tuple(version for version in SCALA if version != "2.1.1")
# Classes with which kafka-acls writes to ZooKeeper directly.
AUTHORIZERS = {
    "1.1.1": "kafka.security.auth.SimpleAclAuthorizer",
    "2.8.2": "kafka.security.authorizer.AclAuthorizer",
}
# Reporting tools that ZooKeeper 3.4 depends on but no repository has, and redundant loggers.
EXCLUDED = (
    ("com.sun.jmx", "jmxri"),
    ("com.sun.jdmk", "jmxtools"),
    ("javax.jms", "jms"),
    ("org.slf4j", "slf4j-log4j12"),
    ("org.slf4j", "slf4j-reload4j"),
)
# Old releases use internals that later JDKs no longer open.
OPENED = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in ("java.lang", "java.nio", "sun.nio.ch")
]
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>old</artifactId><version>1</version>
<dependencies>{dependencies}</dependencies></project>"""


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def libraries(version: str) -> Path:
    """Returns the folder with the jars of a version, which are fetched once."""
    folder = CACHE / f"old-clients-{version}"
    complete = folder / "complete"
    if not complete.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pom.xml").write_text(POM.format(dependencies=_dependencies(version)))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        complete.touch()
    return folder / "libs"


def _dependencies(version: str) -> str:
    wanted = [("org.apache.kafka", f"kafka_{SCALA[version]}", version)]
    if number(version) >= (3,):
        wanted.append(("org.apache.kafka", "kafka-tools", version))
    if number(version) < (2,):
        wanted.append(("javax.xml.bind", "jaxb-api", "2.3.1"))  # removed in Java 11
    if version == "2.1.1":  # its own ZooKeeper client resolves no address on Java 14 and later
        wanted.append(("org.apache.zookeeper", "zookeeper", "3.5.9"))
    wanted.append(("org.slf4j", "slf4j-simple", "1.7.36"))
    without = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>"
        for group, name in EXCLUDED
    )
    return "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{release}</version>"
        f"<exclusions>{without}</exclusions></dependency>"
        for group, name, release in wanted
    )


def command(version: str, main: str, *arguments: str) -> list[str]:
    """Returns the command line of the program."""
    opened = OPENED if number(version) < (3,) else []
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *opened]
    return ["java", *options, "-cp", f"{libraries(version)}/*", main, *arguments]


def run(version: str, main: str, *arguments: str, stdin: str | None = None) -> str:
    """Returns the output of the program; raises AssertionError with its error output if it fails."""
    done = subprocess.run(
        command(version, main, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, f"{version} {main}: {done.stdout[-500:]}\n{done.stderr[-2000:]}"
    return done.stdout


def acls(version: str, zookeeper: str, *arguments: str) -> str:
    """Returns the output of kafka-acls, which uses no broker."""
    properties = ("--authorizer-properties", f"zookeeper.connect={zookeeper}")
    authorizer = ("--authorizer", AUTHORIZERS[version], *properties)
    return run(version, "kafka.admin.AclCommand", *authorizer, *arguments)


def produce(version: str, bootstrap: str, topic: str, codec: str, lines: str, *more: str) -> None:
    """Produces `lines` of `key:value`."""
    server = "--bootstrap-server" if number(version) >= (2, 5) else "--broker-list"
    compression = [] if codec == "none" else ["--compression-codec", codec]
    if number(version) >= (2, 5):
        compression = [f"--compression-codec={codec}"]
    keys = ["--property", "parse.key=true", "--property", "key.separator=:"]
    arguments = [server, bootstrap, "--topic", topic, *keys, *compression, *more]
    run(version, "kafka.tools.ConsoleProducer", *arguments, stdin=lines)


def consume(
    version: str, bootstrap: str, zookeeper: str, topic: str, count: int, *more: str
) -> list[str]:
    """Returns the first `count` lines of `key:value`; Kafka 0.8 finds its brokers only through ZooKeeper."""
    if number(version) < (0, 9):
        server = ["--zookeeper", zookeeper]
    else:
        server = ["--bootstrap-server", bootstrap]
        server += ["--new-consumer"] if number(version) < (0, 10) else []
    main = "kafka.tools.ConsoleConsumer"
    if number(version) >= (3,):
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    keys = ["--property", "print.key=true", "--property", "key.separator=:"]
    bound = ["--from-beginning", "--max-messages", str(count)]
    printed = run(version, main, *server, "--topic", topic, *keys, *bound, *more)
    return [line for line in printed.splitlines() if ":value" in line]

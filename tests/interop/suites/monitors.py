"""The HTTP responses of Burrow, kafka_exporter and kminion about topics and groups."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.interop.controllers import Controllers
from tests.interop.suites.answers import Program, Said
from tests.interop.suites.clusters import BROKERS

SECONDS_MAX = 120
BURROW = """[general]
pidfile="{work}/burrow.pid"
[logging]
level="info"
filename="{work}/burrow.log"
[client-profile.p]
kafka-version="3.6.0"
client-id="burrow"
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
workers=4
intervals=15
expire-group=604800
min-distance=1
[cluster.local]
class-name="kafka"
client-profile="p"
servers=[{servers}]
topic-refresh=10
offset-refresh=1
groups-reaper-refresh=30
[consumer.local]
class-name="kafka"
cluster="local"
servers=[{servers}]
client-profile="p"
start-latest=false
offsets-topic="__consumer_offsets"
"""
KMINION = """kafka: {{brokers: [{servers}]}}
minion:
  consumerGroups: {{enabled: true, scrapeMode: {mode}, granularity: partition}}
  topics: {{enabled: true, granularity: partition, infoMetric: {{configKeys: ["cleanup.policy", "retention.ms"]}}}}
  logDirs: {{enabled: true}}
  endToEnd:
    enabled: true
    probeInterval: 200ms
    topicManagement: {{enabled: true, name: kminion-e2e, reconciliationInterval: 5s, replicationFactor: 3}}
    producer: {{ackSla: 5s, requiredAcks: all}}
    consumer: {{groupIdPrefix: kminion-e2e, deleteStaleConsumerGroups: true, roundtripSla: 5s, commitSla: 5s}}
exporter: {{namespace: kminion, host: 127.0.0.1, port: {port}}}
logger: {{level: warn}}
"""
# The compared metrics are those about our topic, groups and nodes, and the arrival of probes, without durations.
# kafka_exporter adds up lags while it is still requesting them, so a response may lack some sums.
EXPORTED = r'^kafka_(brokers|consumergroup(?!_lag_sum)\w*\{|topic\w*\{.*topic="orders")'
MINION = (
    r'^kminion_kafka_(cluster_info|broker_info|consumer_group_.*group_id="(classic|modern|idle)"'
    r'|topic_(?!log_dir).*"orders")'
)
PROBES = r"^(kminion_end_to_end_\w+_(?:commits|produced|received)_total)\{.*\} (\d+)$"
PROBED = r"(?=.*messages_received_total\{[^}]*\} [1-9])(?=.*offset_commits_total\{coordinator_id[^}]*\} [1-9])"
NODE = r'((?:cluster_version|controller_id|coordinator_id|is_controller)=")[^"]*'
# `maxlag` names any partition with the highest lag.
OF_THE_MOMENT = {"complete", "end", "maxlag", "request", "start", "timestamp"}
LAG = "/v3/kafka/local/consumer/{group}/lag"


@dataclass(frozen=True)
class Server:
    """A program with an HTTP server; `command` returns its command line, `paths` maps each path to a pattern of a
    complete response, and `told` returns the compared part of a response.
    """

    command: Callable[[Controllers, Path, int], list[str]]
    paths: dict[str, str]
    told: Callable[[str], list[str]]

    def __call__(self, nodes: Controllers, work: Path, only: Iterable[str]) -> Said:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with _running(self.command(nodes, work, port), work) as process:
            return {
                path: self.told(_answer(process, f"http://127.0.0.1:{port}{path}", ready))
                for path, ready in self.paths.items()
                if not only or any(part in path for part in only)
            }


@contextlib.contextmanager
def _running(command: list[str], work: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (work / "program.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=work, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _answer(process: subprocess.Popen[bytes], url: str, ready: str) -> str:
    """Returns the first response that matches the pattern, or the last one before the timeout; raises AssertionError if
    the program ends, because its silence is no answer.
    """
    deadline, text = time.monotonic() + SECONDS_MAX, ""
    while time.monotonic() < deadline:
        assert process.poll() is None, f"{process.args} ended; program.log says why"
        try:
            with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
                text = answer.read().decode()
        except urllib.error.HTTPError as refused:
            text = refused.read().decode()
        except OSError:  # the server has not started
            text = ""
        if re.search(ready, text, re.MULTILINE | re.DOTALL):
            return text
        time.sleep(0.2)
    return text


def _servers(nodes: Controllers) -> str:
    return ",".join(f'"{nodes.address(i)}"' for i in BROKERS)


def _burrow(nodes: Controllers, work: Path, port: int) -> list[str]:
    file = work / "burrow.toml"
    file.write_text(BURROW.format(work=work, port=port, servers=_servers(nodes)))
    return ["burrow", f"--config-dir={work}"]


def _exporter(nodes: Controllers, work: Path, port: int) -> list[str]:
    brokers = [f"--kafka.server={nodes.address(i)}" for i in BROKERS]
    return [
        "kafka_exporter",
        *brokers,
        f"--web.listen-address=127.0.0.1:{port}",
        "--offset.show-all",
    ]


def _minion(mode: str) -> Callable[[Controllers, Path, int], list[str]]:
    def command(nodes: Controllers, work: Path, port: int) -> list[str]:
        file = work / "kminion.yml"
        file.write_text(KMINION.format(mode=mode, port=port, servers=_servers(nodes)))
        return ["env", f"CONFIG_FILEPATH={file}", "kminion"]

    return command


def _exported(text: str) -> list[str]:
    return [line for line in text.splitlines() if re.search(EXPORTED, line)]


def _told_by_minion(text: str) -> list[str]:
    lines = [re.sub(NODE, r"\1BROKER", n) for n in text.splitlines() if re.search(MINION, n)]
    counted = [(name, count != "0") for name, count in re.findall(PROBES, text, re.MULTILINE)]
    # The first probed partition differs between runs.
    return [*lines, *sorted({name for name, some in counted if some})]


def _json(text: str) -> list[str]:
    """Yields each value with its path, without those that depend on the time of the request."""

    def walk(path: str, value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                if key not in OF_THE_MOMENT:
                    yield from walk(f"{path}.{key}", inner)
        elif isinstance(value, list):
            for inner in value:
                number = inner.get("partition", "") if isinstance(inner, dict) else ""
                yield from walk(f"{path}.{number}", inner)
        else:
            yield f"{path} {value}"

    return list(walk("", json.loads(text or "null")))


PROGRAMS = (
    Program(
        "burrow",
        "1.9.5",
        "burrow",
        Server(
            _burrow,
            {
                "/v3/kafka": "local",
                "/v3/kafka/local/topic": "orders",
                "/v3/kafka/local/topic/orders": r"\[40,40,40\]",
                "/v3/kafka/local/topic/orders/consumers": "^(?=.*classic)(?=.*modern)(?=.*idle)",
                "/v3/kafka/local/consumer/classic": "orders",
                **{
                    LAG.format(group=group): '"partition_count":3'
                    for group in ("classic", "modern", "idle")
                },
                "/v3/kafka/local/consumer/missing/lag": "error",
            },
            _json,
        ),
    ),
    Program(
        "kafka_exporter",
        "1.9.0",
        "kafka_exporter",
        Server(_exporter, {"/metrics": 'consumergroup="modern"'}, _exported),
    ),
    *(
        Program(
            f"kminion-{mode}",
            "2.3.5",
            "kminion",
            Server(
                _minion(mode),
                {"/metrics": f'(?=.*consumer_group_topic_lag.*group_id="modern"){PROBED}'},
                _told_by_minion,
            ),
        )
        for mode in ("offsetsTopic", "adminApi")
    ),
)

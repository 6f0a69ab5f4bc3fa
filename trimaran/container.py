"""The node in a container: `python -m trimaran.container`, configured like Apache Kafka's image.

- `server.properties` in /mnt/shared/config, if one is mounted;
- overridden by the environment: `KAFKA_PROCESS_ROLES` is process.roles, `__` means `_`, `___` means `-`;
- keystores, passwords and a JAAS file that it names (`trimaran.settings.kafka_image`);
- without either, a single node that is a whole cluster.

Unformatted directories are formatted for the cluster `CLUSTER_ID`. `--healthy` checks whether the event loop of the
running node with the same settings runs, and exits with 0 or 1.

Source: KIP-975, Kafka's `KafkaDockerWrapper` and its script `configure`.
"""

from __future__ import annotations

import http.client
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from trimaran.errors.node import explain
from trimaran.errors.user_error import Exit, UserError
from trimaran.log.directories.meta_properties import new_directory_id
from trimaran.quorum.formatting.initial_voters import standalone_voter
from trimaran.quorum.formatting.storage import format_directories, inspect_directories, random_uuid
from trimaran.running.node_process import say_started, serve
from trimaran.settings.kafka_image import SECRETS, with_files
from trimaran.settings.node_config import parse_config
from trimaran.settings.properties import PropertySetting, from_environment, read_file

if TYPE_CHECKING:
    from trimaran.node.config.server import ServerConfig
    from trimaran.quorum.raft.voters import VoterSet

MOUNTED = Path("/mnt/shared/config/server.properties")
DATA = "/var/lib/kafka/data"
METRICS_LISTENER = "trimaran.metrics.listener"
HEALTH_SECONDS = 5.0
DEFAULTS = {"log.dirs": DATA, METRICS_LISTENER: "127.0.0.1:9404"}
SINGLE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://127.0.0.1:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def settings_of(
    environ: Mapping[str, str], mounted: Path = MOUNTED, secrets: Path = SECRETS
) -> dict[str, PropertySetting]:
    """Returns all settings of the node. Raises UserError if a file cannot be read."""
    given = from_environment(environ)
    if mounted.exists():
        given = read_file(mounted) | given
    if not given:
        given = _settings(SINGLE_NODE, "the image's single node")
    advertised = given.get("advertised.listeners")
    if "listeners" not in given and advertised is not None:
        everywhere = re.sub(r"://[^,]*:", "://0.0.0.0:", advertised.value)
        given["listeners"] = PropertySetting(everywhere, advertised.origin)
    return _settings(DEFAULTS, "the image") | with_files(given, environ, secrets)


def _settings(texts: Mapping[str, str], origin: str) -> dict[str, PropertySetting]:
    return {key: PropertySetting(value, origin) for key, value in texts.items()}


def cluster_id_of(config: ServerConfig, environ: Mapping[str, str]) -> str:
    """Returns the cluster id for formatting: `CLUSTER_ID`, or a new one for a node that is a whole cluster.

    Raises:
        UserError: `CLUSTER_ID` is not set, and other nodes would choose different ids.
    """
    if given := _named_cluster(environ):
        return given
    if config.is_broker and _is_alone(config):
        return random_uuid()
    raise UserError(
        "CLUSTER_ID is not set",
        "all nodes of a cluster need the same id, and this cluster has more than one node",
        "set CLUSTER_ID to the output of trimaran storage random-uuid, the same for all nodes",
        exit_code=Exit.USAGE,
    )


def _named_cluster(environ: Mapping[str, str]) -> str | None:
    """Returns the cluster id in the environment, by the variable of Kafka's image or that of Bitnami's."""
    return environ.get("CLUSTER_ID") or environ.get("KAFKA_KRAFT_CLUSTER_ID")


def format_new(config: ServerConfig, environ: Mapping[str, str]) -> None:
    """Formats unformatted directories; a formatted one keeps its cluster.

    Raises:
        UserError, FormatError: formatting is impossible; OSError: the disk fails.
    """
    ids = {identity.cluster_id for identity in inspect_directories(config).identities.values()}
    if _named_cluster(environ) or not ids:
        cluster_id = cluster_id_of(config, environ)
    else:
        cluster_id = min(ids)
    voters = None if ids else _first_voters(config)
    format_directories(config, cluster_id, ignore_formatted=True, voters=voters)


def _first_voters(config: ServerConfig) -> VoterSet | None:
    """Returns the first voters: a single controller is the only voter; other controllers find theirs in their
    configuration.
    """
    if config.voters or not _is_alone(config):
        return None
    return standalone_voter(config, new_directory_id())


def _is_alone(config: ServerConfig) -> bool:
    """Whether the node is the only controller in its settings."""
    own = [*config.controller_listeners, *config.advertised_controller_listeners]
    return config.is_controller and set(config.quorum_bootstrap) <= {
        (endpoint.host, endpoint.port) for endpoint in own
    }


def run() -> None:
    """Formats and serves until SIGTERM. Raises UserError."""
    config = parse_config(settings_of(os.environ), to_serve=True)
    format_new(config, os.environ)
    serve(config, lambda: say_started(config))


def is_healthy(settings: Mapping[str, PropertySetting]) -> bool:
    """Returns whether /healthz at the node's trimaran.metrics.listener responds with 200."""
    host, _, port = settings[METRICS_LISTENER].value.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=HEALTH_SECONDS)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def main(arguments: list[str]) -> int:
    """Returns the exit code; an error is printed in three lines."""
    # The first process of a container has no default signal handlers, so a signal would not end it during formatting.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        if arguments == ["--healthy"]:
            return Exit.OK if is_healthy(settings_of(os.environ)) else Exit.NO
        run()
    except Exception as error:
        told = error if isinstance(error, UserError) else explain(error)
        if told is None:
            raise
        print(told, file=sys.stderr)  # noqa: T201
        return told.exit_code
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

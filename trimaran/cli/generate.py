"""`generate prometheus|alerts|grafana|jmx-exporter|systemd|compose|k8s`: files to monitor or run a cluster, on
stdout.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.types import PositiveInt

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.metrics import Addresses, sources_of
from trimaran.cli.output import say
from trimaran.deployment import compose as deployment_compose
from trimaran.deployment import kubernetes
from trimaran.deployment import systemd as deployment_systemd
from trimaran.metrics import alerts as metrics_alerts
from trimaran.metrics import dashboard as metrics_dashboard
from trimaran.metrics import jmx_rules as metrics_jmx_rules
from trimaran.metrics import scrape_config as metrics_scrape_config
from trimaran.quorum.formatting import storage as formatting_storage
from trimaran.settings import node_config, properties

ClusterId = Annotated[str | None, Parameter(name=["-t", "--cluster-id"])]


def prometheus(
    *,
    address: Addresses = None,
    cluster: str = "trimaran",
    namespace: str = "default",
    rules: Annotated[list[str] | None, Parameter(negative=())] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Prints a Prometheus configuration that scrapes the nodes of the local cluster, or the given ones.

    Args:
        address: HOST:PORT of trimaran.metrics.listener of a node. May be repeated.
        cluster: Name of the job, and of the cluster in Strimzi's dashboards.
        namespace: The namespace label, with which Strimzi's dashboards filter.
        rules: A file of rules to load, such as the output of generate alerts. May be repeated.
    """
    nodes = sources_of(address, data)
    sys.stdout.write(metrics_scrape_config.scrape_config(nodes, cluster, namespace, rules or []))


def alerts() -> None:
    """Prints alerting rules, a rule file for Prometheus."""
    sys.stdout.write(metrics_alerts.alert_rules())


def grafana(*, title: str = "Kafka by trimaran") -> None:
    """Prints a dashboard to import into Grafana.

    Args:
        title: The title of the dashboard.
    """
    sys.stdout.write(metrics_dashboard.dashboard(title))


def jmx_exporter() -> None:
    """Prints rules for the JMX exporter of Apache Kafka, so that its metrics have the same names as trimaran's.

    The charts of the console, trimaran metrics, and the alerts and dashboard of generate then work with it.
    """
    sys.stdout.write(metrics_jmx_rules.jmx_rules())


def systemd(
    *,
    config: Annotated[Path, Parameter(name=["-c", "--config"])],
    user: str = "trimaran",
    program: Path | None = None,
) -> None:
    """Prints a systemd unit that runs the node of a properties file.

    Args:
        config: The properties file of the node; the unit may write only to its log directories.
        user: The user as which the node runs.
        program: The executable to run; by default this trimaran.
    """
    settings = node_config.parse_config(properties.load(config, [], {}))
    own = Path(sys.argv[0]) if Path(sys.argv[0]).name == "trimaran" else _script()
    paths = [*settings.log_directories, settings.metadata_directory]
    directories = list(dict.fromkeys(path.absolute() for path in paths))
    path = Path(os.path.abspath(program or own))
    needed = [path, path.with_name("python"), config.absolute(), *directories]
    for sentence in deployment_systemd.hidden(needed):
        say(f"warning: {sentence}; move it, such as to /opt or /etc, or change the unit")
    sys.stdout.write(deployment_systemd.unit(path, config.absolute(), user, directories))


def _script() -> Path:
    """Returns the path of the script `trimaran`; if `python -m trimaran` runs, the one next to the interpreter."""
    return Path(sys.executable).with_name("trimaran")


def compose(
    *,
    image: str = "trimaran",
    controllers: PositiveInt = 3,
    brokers: PositiveInt = 3,
    cluster_id: ClusterId = None,
) -> None:
    """Prints a Compose file of a cluster in containers.

    Args:
        image: The image, built from the Containerfile.
        controllers: Number of controllers.
        brokers: Number of brokers; they listen on localhost:19092 and above.
        cluster_id: The cluster id; by default a new one.
    """
    sys.stdout.write(
        deployment_compose.compose_file(
            image, cluster_id or formatting_storage.random_uuid(), controllers, brokers
        )
    )


def k8s(
    *,
    name: str = "trimaran",
    image: str = "trimaran",
    controllers: PositiveInt = 3,
    brokers: PositiveInt = 3,
    storage: str = "10Gi",
    cluster_id: ClusterId = None,
) -> None:
    """Prints a Kubernetes manifest: controllers and brokers as StatefulSets.

    Args:
        name: The name of its objects, or the prefix of their names.
        image: The image, built from the Containerfile.
        controllers: Number of controllers.
        brokers: Number of brokers.
        storage: Size of the volume of each node.
        cluster_id: The cluster id; by default a new one.
    """
    chosen = cluster_id or formatting_storage.random_uuid()
    sys.stdout.write(kubernetes.manifest(name, image, chosen, controllers, brokers, storage))

"""`generate prometheus|alerts|grafana`: files for who watches a cluster, on stdout."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from trimaran.cli.connect import DEFAULT_DATA, Data
from trimaran.cli.metrics import Addresses, sources_of


def prometheus(
    *,
    address: Addresses = None,
    cluster: str = "trimaran",
    namespace: str = "default",
    rules: Annotated[list[str] | None, Parameter(negative=())] = None,
    data: Data = DEFAULT_DATA,
) -> None:
    """Prints a configuration of Prometheus that scrapes the nodes of the local cluster, or those given.

    Args:
        address: HOST:PORT of trimaran.metrics.listener of a node.
        cluster: name of the job, and of the cluster in Strimzi's dashboards.
        namespace: that label, which Strimzi's dashboards choose by.
        rules: a file of rules to load, as generate alerts prints it.
        data: the directory of the local cluster.
    """
    from trimaran.metrics.scrape_config import scrape_config

    nodes = sources_of(address, data)
    sys.stdout.write(scrape_config(nodes, cluster, namespace, rules or []))


def alerts() -> None:
    """Prints alerts as a file of rules for Prometheus."""
    from trimaran.metrics.alerts import alert_rules

    sys.stdout.write(alert_rules())


def grafana(*, title: str = "Kafka by trimaran") -> None:
    """Prints a dashboard to import into Grafana.

    Args:
        title: its title.
    """
    from trimaran.metrics.dashboard import dashboard

    sys.stdout.write(dashboard(title))

"""`brokers list`."""

from __future__ import annotations

from trimaran.cli.connect import BROKERS, Brokers
from trimaran.cli.output import Format, show_rows
from trimaran.client.brokers import broker_rows
from trimaran.errors import Exit


def list_brokers(*, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists all brokers that are registered, with what they lead; exit code 1 when one of them is fenced."""
    with brokers.connected() as client:
        rows = broker_rows(client, client.refresh(None).topics)
    show_rows(rows, output, columns=["id", "address", "rack", "state", "leaders", "replicas"])
    return Exit.NO if any(row["state"] == "fenced" for row in rows) else Exit.OK

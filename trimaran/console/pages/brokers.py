"""The list of brokers, and the page of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trimaran.client.brokers import broker_rows
from trimaran.client.configs import config_rows
from trimaran.client.log_dirs import log_dirs_of
from trimaran.console.page import NotHere, Page, PageRequest, Row, table
from trimaran.errors.user_error import UserError
from trimaran.wire.buffers.primitives import uuid_to_text
from trimaran.wire.errors import KafkaError
from trimaran.wire.identity import Address, BrokerId

if TYPE_CHECKING:
    from trimaran.wire.blocking import BlockingClient

BROKER_RESOURCE = 4
# A broker reads the file sizes of each replica in the request.
SIZED_REPLICAS_MAX = 5_000
COLUMNS = ("id", "address", "rack", "state", "leaders", "replicas")


def view(question: PageRequest) -> dict[str, Any]:
    topics = question.cluster.topics()
    with question.cluster.client() as client:
        rows = broker_rows(client, topics)
    led = sum(row["leaders"] for row in rows)
    for row in rows:
        row["leaders_percent"] = round(100 * row["leaders"] / led, 1) if led else None
    shown = table(question, rows, columns=COLUMNS, sort="id", search=("id", "address", "rack"))
    return {**shown, "fenced": sum(row["state"] == "fenced" for row in rows)}


def view_one(question: PageRequest) -> dict[str, Any]:
    wanted = question.path["broker"]
    with question.cluster.client() as client:
        rows = broker_rows(client, question.cluster.topics())
        row = next((each_row for each_row in rows if str(each_row["id"]) == wanted), None)
        if row is None:
            raise NotHere(
                f"broker {wanted[:20]} is not registered",
                f"the brokers are {', '.join(str(each_row['id']) for each_row in rows)}",
                "choose one of them in the list of brokers",
            )
        if row["state"] == "fenced":
            return {"broker": row, "directories": None, "rows": None, **_registration(question)}
        client.refresh()
        configs = config_rows(client, BROKER_RESOURCE, wanted, row["id"])
        return {
            "broker": row,
            "directories": _directories(client, row),
            "sized_max": SIZED_REPLICAS_MAX,
            "rows": configs,
            **_registration(question),
        }


def _directories(client: BlockingClient, row: Row) -> list[dict[str, Any]] | None:
    """Returns the log directories of a broker, with the bytes of its replicas if there are not too many; None if the
    console is not authorized.
    """
    with_sizes = row["replicas"] <= SIZED_REPLICAS_MAX
    try:
        found = log_dirs_of(client, row["id"], None if with_sizes else [])
    except KafkaError:
        return None
    for directory in found:
        replicas = directory.pop("replicas")
        directory["replicas"] = len(replicas) if with_sizes else None
        directory["bytes"] = sum(replica["size"] for replica in replicas) if with_sizes else None
    return found


def _registration(question: PageRequest) -> dict[str, Any]:
    """Returns the facts about a broker that only the metadata log has; nothing if it cannot be read."""
    if question.cluster.controllers is None:
        return {"registration": None}
    try:
        image = question.cluster.log.state().image
    except UserError:
        return {"registration": None}
    found = image.cluster.brokers.get(BrokerId(question.path["broker"]))
    if found is None:
        return {"registration": None}
    return {
        "registration": {
            "epoch": found.epoch,
            "incarnation_id": uuid_to_text(found.incarnation_id),
            "listeners": [
                f"{listener.name}://{Address(listener.host, listener.port)}"
                for listener in found.listeners
            ],
            "in_controlled_shutdown": found.in_controlled_shutdown,
            "directories": [uuid_to_text(directory) for directory in found.directories],
        }
    }


PAGE = Page("/brokers", "Brokers", "brokers.html", view)
PAGE_OF_ONE = Page("/brokers/{broker:int}", "Broker", "broker.html", view_one)

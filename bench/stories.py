"""The stories of docs/stories.md: one request each, as the functions that it enters, in order, during a run in this
process.

A row is a public function that another folder calls. Folders that every request uses in the same way, such as buffers
and turns of the loop, are omitted, and so are functions that an idle cluster calls, too. The Produce is flushed before
its response: its rows go down to the system call, which needs a kernel with asynchronous fdatasync.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, MutableSequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from textwrap import shorten
from types import CodeType
from typing import Any
from unittest.mock import patch

import trio
import trio._core._run as scheduler

from bench import calls as calls_of_requests
from bench.call_requests import new_topic
from bench.calls import (
    ONE_BROKER,
    ONE_BROKER_FSYNCED,
    TIMEOUT_SECONDS,
    Entered,
    over_the_wire,
)
from bench.counting import ROOT, Calls
from tests.cluster.in_process import cluster, connected_to
from trimaran.wire.messages.create_topics import CreateTopicsRequest

Row = tuple[str, str, str]
PRODUCT = f"{ROOT / 'trimaran'}/"
ROWS_MAX = 25
TEXT_CHARACTERS_MAX = 110
IDLE_SECONDS = 1.0
REST_SECONDS = 0.01  # markers of transactions follow the response
SESSION_MS = 600
PRODUCE, FSYNCED_PRODUCE = "A Produce", "Produce, fsynced"
REQUESTS = {
    PRODUCE: "Produce",
    "A Fetch": "Fetch",
    "A change of metadata: CreateTopics": "CreateTopics, until applied",
    "The end of a transaction: EndTxn": "EndTxn",
}
FAIL_OVER = "A fail-over: the leader's broker dies"
# The machinery of every request, values, checks of requests, and details of a step.
LEFT_OUT = re.compile(
    r"wire/(buffers|codec|messages|records|text|client|schema|identity|errors)"
    r"|wire/transport/(memory|scheduling|metrics|endpoint|requests|client|server|dispatch/(dispatch|running))"
    r"|node/(config|quotas|text|runtime|listening)|node/replicated/(metrics|operations)"
    r"|log/(batches|codecs|disk|config|steps|producers|old_formats|directories|segments/rolling)"
    r"|log/(partitions/local_log|durability/(flush|health)|segments/slices)"
    r"|broker/(background|channels/(?!forwarding)|metadata/(endpoints|client_quotas)|process|storage/directories)"
    r"|broker/(fetching/sessions|partitions/(alter_partitions|suspect_checks))"
    r"|quorum/(raft_log|translate|serving|raft/(log|types|state|messages|voters|ready))"
    r"|quorum/(metadata/(image|records|topic_names)|controller/(configs|partitions/(index|placement)))"
    r"|quorum/controller/(nodes/(registrar|reachability)|tasks/own_decisions)|trimaran/"
)
# The path of an append to the system call, which the Produce shows step by step, even within a folder.
SHOWN = {
    ("log/partitions/local_log.py", "LocalLog.prepare_flush"),
    ("log/durability/flush.py", "Flushing.prepare"),
    ("log/durability/syncing.py", "begin"),
    ("log/durability/syncing.py", "Fdatasyncs.submit"),
    ("log/durability/flush.py", "Flushing.finish"),
}
# Resumed tasks, ends of requests, and the functions of a rule that an idle node follows, too.
NAMES_LEFT_OUT = re.compile(
    r"(.*\.)?(run|close|publish|wait_for|deadline|expect|earliest|encode|encoded|decode_response|core_response|stop_reading"
    r"|end_offset_for_epoch|answer_changes|commit|forward_frame|handle|locate|log_changed|note|others|read_bytes"
    r"|ready|since|submit|wait|watermarks|active|named)$"
)


def stories() -> dict[str, list[Row]]:
    """Returns the rows of each story by its title: the file, the function, and the beginning of its docstring."""
    with tempfile.TemporaryDirectory() as root, in_order():
        walks = {name: ONE_BROKER[name] for name in REQUESTS.values()}
        measured = trio.run(over_the_wire, Path(root) / "one", 1, walks, False)
        fsynced = {FSYNCED_PRODUCE: ONE_BROKER_FSYNCED[FSYNCED_PRODUCE]}
        measured |= trio.run(over_the_wire, Path(root) / "fsynced", 1, fsynced, True)
        entered = {title: measured[name][1].entered for title, name in REQUESTS.items()}
        entered[PRODUCE] = measured[FSYNCED_PRODUCE][1].entered
        entered[FAIL_OVER] = trio.run(_fail_over, Path(root) / "three")
    return {
        title: list(_rows(calls, SHOWN if title == PRODUCE else frozenset()))
        for title, calls in entered.items()
    }


class _OldestFirst(Random):
    """trio's random numbers, without the shuffle of the tasks of a turn, which it has sorted by age."""

    def shuffle(self, tasks: MutableSequence[Any]) -> None:
        tasks.reverse()  # the last one runs first


@contextmanager
def in_order() -> Iterator[None]:
    """Runs the tasks of a turn in the order of their creation, and counts work after a response as part of it."""
    with (
        patch.object(scheduler, "_ALLOW_DETERMINISTIC_SCHEDULING", new=True),
        patch.object(scheduler, "_r", new=_OldestFirst()),
        patch.object(calls_of_requests, "REST_SECONDS", REST_SECONDS),
    ):
        yield


def _rows(entered: Entered, shown: Collection[tuple[str, str]]) -> Iterator[Row]:
    seen: set[tuple[str, str]] = set()
    for code, caller in entered.items():
        place, name = code.co_filename.removeprefix(PRODUCT), code.co_qualname
        if "<" in name or any(part.startswith("_") for part in name.split(".")):
            continue
        is_omitted = LEFT_OUT.match(place) or NAMES_LEFT_OUT.match(name)
        is_internal = caller is not None and _folder(caller) == _folder(code)
        if (place, name) not in shown and (is_omitted or is_internal):
            continue
        if (place, name) not in seen and (text := _says(place, name)):
            seen.add((place, name))
            yield place, name, text


def _folder(code: CodeType) -> str:
    return str(Path(code.co_filename).parent)


def _says(place: str, name: str) -> str:
    """Returns the first sentence of the function's docstring; none for a property, which is not a step."""
    module = import_module("trimaran." + place.removesuffix(".py").replace("/", "."))
    found: object = module
    for part in name.split("."):
        found = inspect.getattr_static(found, part)
    if isinstance(found, property):
        return ""
    is_handler = "/handlers/" in place
    text = inspect.getdoc(module if is_handler else found) or ""
    sentence = re.split(r"(?<=[^.][^.]\.)\s", " ".join(text.split()), maxsplit=1)[0]
    return shorten(sentence.rstrip("."), TEXT_CHARACTERS_MAX, placeholder=" …").replace("|", "\\|")


async def _fail_over(root: Path) -> Entered:
    """Stops the broker that leads a partition of two replicas, and returns the calls until the other one leads and has
    the metadata that the first one is fenced, which the controller decides separately.
    """
    calls = Calls()
    settings = {"broker_session_timeout_ms": SESSION_MS, "broker_heartbeat_interval_ms": 100}
    settings |= {"metadata_max_idle_interval_ms": 0, "controlled_shutdown_enable": "false"}
    async with cluster(root, brokers=2, **settings) as found:
        async with connected_to(found.brokers[11]) as client:
            request = CreateTopicsRequest(topics=[new_topic("t", 2)], timeout_ms=10_000)
            await client.call(request, timeout=TIMEOUT_SECONDS)
        image = await found.seen(lambda image: "t" in image.topics.by_name)
        leader = image.topics.by_name["t"].partitions[0].leader
        (other,) = found.brokers.keys() - {leader}
        await found.brokers[other].parts.metadata.wait_for(lambda seen: "t" in seen.topics.by_name)
        with calls.counting():
            await trio.sleep(IDLE_SECONDS)
        idle = calls.take().entered
        with calls.counting():
            await found.stop(leader)
            await found.seen(_has_failed_over(leader, other), other)
        return {code: caller for code, caller in calls.take().entered.items() if code not in idle}


def _has_failed_over(stopped: int, broker: int) -> Callable[..., bool]:
    return lambda image: (
        image.topics.by_name["t"].partitions[0].leader == broker
        and image.cluster.brokers[stopped].fenced
    )

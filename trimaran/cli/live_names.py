"""The names that a shell completes: topics, groups or brokers of the cluster that the command line names.

`trimaran complete-names KIND WORDS…` is for the scripts of `generate completion`. It answers within 150 ms or not at
all, so it does not use cyclopts, TLS or SASL, and never reports an error.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from trimaran.client import groups, partitions
from trimaran.local import state_file
from trimaran.settings import profiles
from trimaran.wire import blocking

# Together with the start of the interpreter this is below 150 ms.
SECONDS_MAX = 0.12


def complete_names(arguments: Sequence[str]) -> NoReturn:
    """Prints one name per line, and ends the process."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, SECONDS_MAX)
    try:
        names = _names(arguments[0], arguments[1:])
        # A shell takes each line as a name and prints it unchanged; clients choose the names of groups.
        print("\n".join(name for name in names if name.isprintable()), flush=True)
    except Exception:  # noqa: BLE001 - a shell that completes wants no words of us
        os._exit(0)
    os._exit(0)


def _names(kind: str, words: Sequence[str]) -> list[str]:
    with blocking.BlockingClient(_bootstrap(words), timeout=SECONDS_MAX) as client:
        return _KINDS[kind](client)


def _topics(client: blocking.BlockingClient) -> list[str]:
    return sorted(topic.name or "" for topic in partitions.topics_of(client, None))


def _groups(client: blocking.BlockingClient) -> list[str]:
    return [str(row["group"]) for row in groups.group_rows(client)]


def _brokers(client: blocking.BlockingClient) -> list[str]:
    client.refresh()
    return [str(node) for node in sorted(client.routing.nodes)]


_KINDS = {"topics": _topics, "groups": _groups, "brokers": _brokers}


def _bootstrap(words: Sequence[str]) -> str:
    """Finds the brokers in the words of the line, as `trimaran.cli.connect` does."""
    given = _option(words, "-b", "--bootstrap-server")
    profile = _option(words, "--profile") or os.environ.get("TRIMARAN_PROFILE")
    if given or profile:
        return given or profiles.load(str(profile))[profiles.BROKERS].value
    for variable in ("TRIMARAN_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS"):
        if found := os.environ.get(variable):
            return found
    data = Path(_option(words, "--data") or ".trimaran")
    return state_file.read(state_file.nearest(data)).bootstrap


def _option(words: Sequence[str], *names: str) -> str | None:
    return next((after for word, after in itertools.pairwise(words) if word in names), None)

"""Results of the suites in `results/`, with a file for each suite: the state of each test on each kind of cluster."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
CLIENTS = FOLDER / "clients.json"
KAFKAS = FOLDER / "kafkas.json"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
Suite = dict[str, dict[str, str]]  # the state of each test, by kind of cluster


def load(suite: str) -> Suite:
    """Returns a suite's results by test, which are empty if it never ran."""
    file = FOLDER / f"{suite}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def keep(suite: str, kind: str, found: dict[str, str], *, whole: bool) -> None:
    """Stores the states of tests that ran on one kind, in place of earlier ones. A whole run replaces all of the kind's
    states, also those of tests that are gone.
    """
    kept = load(suite)
    if whole:
        for states in kept.values():
            states.pop(kind, None)
    for name, state in found.items():
        kept.setdefault(name, {})[kind] = state
    _write(FOLDER / f"{suite}.json", {name: states for name, states in kept.items() if states})


def kafkas() -> dict[str, str]:
    """Returns the version of Apache Kafka on which each suite ran as a whole."""
    return json.loads(KAFKAS.read_text())


def keep_kafka(suite: str, version: str) -> None:
    """Stores the version of Apache Kafka on which a suite ran as a whole."""
    _write(KAFKAS, {**kafkas(), suite: version})


def below_kafka(suite: str, found: dict[str, str]) -> dict[str, str]:
    """Returns the tests of a run that Kafka passes and we do not."""
    kept = load(suite)
    return {
        name: state
        for name, state in found.items()
        if state != PASSED and kept.get(name, {}).get("kafka") == PASSED
    }


def clients() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """Returns the states of our own tests with clients, by client, its version, action, and test."""
    return json.loads(CLIENTS.read_text()) if CLIENTS.exists() else {}


def keep_client(client: str, version: str, what: str, test: str, state: str) -> None:
    kept = clients()
    kept.setdefault(client, {}).setdefault(version, {}).setdefault(what, {})[test] = state
    _write(CLIENTS, kept)


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")

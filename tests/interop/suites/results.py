"""Results of the suites, kept in `results/`, a file for each: the state of each test on either kind of cluster."""

from __future__ import annotations

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "results"
CLIENTS = FOLDER / "clients.json"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
Suite = dict[str, dict[str, str]]  # of each test: its state by the kind of cluster


def load(suite: str) -> Suite:
    """By test, of a suite; empty when it never ran."""
    file = FOLDER / f"{suite}.json"
    return json.loads(file.read_text()) if file.exists() else {}


def keep(suite: str, kind: str, found: dict[str, str]) -> None:
    """Puts the states of tests that ran on one kind over those that were there."""
    kept = load(suite)
    for name, state in found.items():
        kept.setdefault(name, {})[kind] = state
    _write(FOLDER / f"{suite}.json", kept)


def below_kafka(suite: str, found: dict[str, str]) -> dict[str, str]:
    """Returns the tests of a run that Kafka passes and we do not."""
    kept = load(suite)
    return {
        name: state
        for name, state in found.items()
        if state != PASSED and kept.get(name, {}).get("kafka") == PASSED
    }


def clients() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """The states of our own tests with clients, by client, its version, what it does, and test."""
    return json.loads(CLIENTS.read_text()) if CLIENTS.exists() else {}


def keep_client(client: str, version: str, what: str, test: str, state: str) -> None:
    kept = clients()
    kept.setdefault(client, {}).setdefault(version, {}).setdefault(what, {})[test] = state
    _write(CLIENTS, kept)


def _write(file: Path, content: object) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")

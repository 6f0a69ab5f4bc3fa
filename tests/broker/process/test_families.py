"""The contexts of a broker's families: what several of them have is the same part, with the configured times."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.data_side import open_harness
from trimaran.broker.process import families as made

# Parts that a broker may lack, and that the contexts therefore have a default for.
GIVEN: dict[str, Any] = {"authorizer": object(), "zookeeper_offsets": object()}
GIVEN["client_metrics"] = object()


@pytest.fixture
def families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> made.Families:
    create = made.families

    def with_all(*args: Any) -> made.Families:
        return create(*args, **GIVEN)

    monkeypatch.setattr("tests.cluster.data_side.families", with_all)
    harness = open_harness(tmp_path, request_timeout_ms="7000", fetch_max_bytes="2048")
    return harness.families


def parts_of(families: made.Families) -> dict[str, dict[str, Any]]:
    """Returns by field the value in each context that has the field."""
    found: dict[str, dict[str, Any]] = {}
    for family in fields(families.contexts):
        context = getattr(families.contexts, family.name)
        for field in fields(context):
            found.setdefault(field.name, {})[family.name] = getattr(context, field.name)
    return found


def test_part_is_the_same_in_all_contexts(families):
    parts = {name: values for name, values in parts_of(families).items() if name != "now_ms"}
    given = GIVEN | {"quotas": families.data.quotas, "partitions": families.data.partitions}
    wrong = [
        (name, family)
        for name, values in parts.items()
        for family, value in values.items()
        if value is not given.get(name, next(iter(values.values())))
    ]
    assert not wrong
    assert len(parts["authorizer"]) == len(fields(families.contexts))


def test_requests_to_other_nodes_wait_as_configured(families):
    contexts = families.contexts
    waits = {
        "forwarder": contexts.administration.forwarder._seconds_max,
        "latest offsets": contexts.groups.latest_offsets._seconds,
        "markers": families.transactions.markers._seconds,
        "share states": families.shares.states._seconds,
        "verifier": families.transactions.verifier._seconds,
    }
    assert waits == dict.fromkeys(waits, 7.0)


def test_fetched_bytes_have_the_configured_bound(families):
    assert families.contexts.data.limits.fetch_bytes_max == 2048

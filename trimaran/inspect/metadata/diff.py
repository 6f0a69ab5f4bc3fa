"""Differences between two states of the metadata, path by path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from immutables import Map

from trimaran.node.text.wording import entity_text
from trimaran.quorum.metadata.as_json import state_as_json, topic_as_json
from trimaran.quorum.metadata.image import TopicImage, TopicsImage
from trimaran.quorum.metadata.replay import MetadataState

# The keys by which elements of a list of objects are compared.
_KEYS = ("partition", "id", "voter_id", "token_id", "resource_type", "entity", "name")
_ABSENT: Any = object()


def state_differences(
    before: MetadataState,
    after: MetadataState,
    topic_value: Callable[[TopicImage], Any] = topic_as_json,
) -> Iterator[dict[str, Any]]:
    """Returns the `differences` between two whole states of a cluster; equal topics cost almost nothing.

    `topic_value` returns the value of a new or deleted topic: with thousands of topics, not every one can be shown in
    full.
    """
    ours, theirs = before.image.topics.by_name, after.image.topics.by_name
    in_both = [name for name, entity in ours.items() if theirs.get(name, entity) is not entity]
    yield from differences(_content(before, ours, in_both), _content(after, theirs, in_both))
    for topics, others, change in ((ours, theirs, "removed"), (theirs, ours, "added")):
        for name in sorted(name for name in topics if name not in others):
            row = {"path": f"/topics/{name}", "change": change, "before": None, "after": None}
            row["after" if change == "added" else "before"] = topic_value(topics[name])
            yield row


def _content(
    state: MetadataState, topics: Mapping[str, TopicImage], names: Iterable[str]
) -> dict[str, Any]:
    """Returns an image with these topics only, and without its provenance."""
    kept = TopicsImage(by_name=Map({name: topics[name] for name in names}))
    shown = state_as_json(replace(state, image=replace(state.image, topics=kept)))
    return {name: part for name, part in shown.items() if name not in ("offset", "timestamp_ms")}


def differences(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """Yields rows of `path`, `change` (added, removed, changed), `before` and `after`; an added or removed part is one
    row.
    """
    if before == after:
        return
    if before is _ABSENT or after is _ABSENT:
        added = before is _ABSENT
        yield {
            "path": path or "/",
            "change": "added" if added else "removed",
            "before": None if added else before,
            "after": after if added else None,
        }
        return
    ours, theirs = _by_name(before), _by_name(after)
    if ours is None or theirs is None:
        yield {"path": path or "/", "change": "changed", "before": before, "after": after}
        return
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        yield from differences(ours.get(name, _ABSENT), theirs.get(name, _ABSENT), f"{path}/{name}")


def _by_name(value: Any) -> dict[str, Any] | None:
    """Returns the parts of an object or of a list of objects; None for values that are compared as a whole."""
    if isinstance(value, dict):
        return {str(key): part for key, part in value.items()}
    if isinstance(value, list) and value and all(map(_has_name, value)):
        return {_name(part): part for part in value}
    return {} if value == [] else None


def _has_name(part: Any) -> bool:
    return isinstance(part, dict) and any(key in part for key in _KEYS)


def _name(part: dict[str, Any]) -> str:
    key = next(key for key in _KEYS if key in part)
    if key == "resource_type" and "id" not in part:
        return f"{part[key]}:{part['resource_name']}"
    if key == "entity":
        return entity_text(part[key])
    return str(part[key])

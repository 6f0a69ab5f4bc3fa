"""Metric families as text, in the form that the scraper asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

# Parameter of a query: only metrics of these names, as in every exporter of Prometheus' clients.
NAMES = "name[]"
_ENDS = ("", "_total", "_count", "_sum", "_bucket")  # of a sample, after the name of its family


class Text(NamedTuple):
    content_type: str
    body: bytes


class _Collected(Collector):
    """Families that were made already, in the place of a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def restricted(families: Iterable[Metric], names: frozenset[str]) -> Iterable[Metric]:
    """Families of which a sample is named; all of them where nothing is."""
    if not names:
        return families
    return [family for family in families if any(f"{family.name}{end}" in names for end in _ENDS)]


def text_of(families: Iterable[Metric], accept: str) -> Text:
    """`accept` is the header of that name: Prometheus' text, or OpenMetrics. Runs in a thread: it takes some 10 us a
    sample.
    """
    encode, content_type = choose_encoder(accept)
    return Text(content_type, encode(_Collected(families)))

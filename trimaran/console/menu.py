"""The menu: all pages, and those that need an address that the console does not have."""

from __future__ import annotations

from typing import NamedTuple

from trimaran.console.cluster import ConsoleCluster


class Item(NamedTuple):
    """An entry of the menu. The keys `g` and `key` open the page; `missing` is the option that is missing, or empty."""

    path: str
    name: str
    key: str
    is_here: bool
    missing: str


_CONTROLLERS, _ZOOKEEPER = "needs -B", "needs -z"
_PLACES = (
    ("/", "Overview", "o", ""),
    ("/quorum", "Quorum", "q", ""),
    ("/brokers", "Brokers", "b", ""),
    ("/topics", "Topics", "t", ""),
    ("/groups", "Groups", "r", ""),
    ("/charts", "Charts", "c", ""),
    ("/events", "Events", "e", _CONTROLLERS),
    ("/configs", "Config history", "h", _CONTROLLERS),
    ("/metadata", "Metadata log", "m", _CONTROLLERS),
    ("/access", "Access", "a", ""),
    ("/zookeeper", "ZooKeeper", "z", _ZOOKEEPER),
    ("/analyses", "Analyses", "y", ""),
)


def menu_of(cluster: ConsoleCluster, path: str) -> list[Item]:
    return [
        Item(place, name, key, _is_at(path, place), needed if _is_missing(cluster, needed) else "")
        for place, name, key, needed in _PLACES
    ]


def _is_at(path: str, place: str) -> bool:
    return path == place or (place != "/" and path.startswith(f"{place}/"))


def _is_missing(cluster: ConsoleCluster, needed: str) -> bool:
    return (needed == _CONTROLLERS and cluster.controllers is None) or (
        needed == _ZOOKEEPER and cluster.zookeeper is None
    )

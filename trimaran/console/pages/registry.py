"""All pages; the first that matches a path is served."""

from __future__ import annotations

from trimaran.console.page import Page
from trimaran.console.pages import (
    access,
    analyses,
    brokers,
    charts,
    configs,
    events,
    groups,
    message,
    messages,
    metadata,
    overview,
    quorum,
    topic,
    topics,
    zookeeper,
)

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    quorum.PAGE,
    brokers.PAGE,
    brokers.PAGE_OF_ONE,
    topics.PAGE,
    topic.PAGE,
    topic.PAGE_OF_PARTITION,
    messages.PAGE,
    message.PAGE,
    groups.PAGE,
    groups.PAGE_OF_ONE,
    events.PAGE,
    charts.PAGE,
    configs.PAGE,
    metadata.PAGE,
    metadata.PAGE_OF_DIFF,
    access.PAGE,
    zookeeper.PAGE,
    analyses.PAGE,
)

"""All pages; the first that fits a path answers."""

from __future__ import annotations

from trimaran.console.page import Page
from trimaran.console.pages import brokers, groups, overview, quorum, topic, topics

PAGES: tuple[Page, ...] = (
    overview.PAGE,
    quorum.PAGE,
    brokers.PAGE,
    brokers.PAGE_OF_ONE,
    topics.PAGE,
    topic.PAGE,
    topic.PAGE_OF_PARTITION,
    groups.PAGE,
    groups.PAGE_OF_ONE,
)

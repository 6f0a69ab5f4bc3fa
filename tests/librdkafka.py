"""Creates librdkafka's clients for tests: their log belongs to the test, and pytest shows it if the test fails.

By itself librdkafka writes to standard error from threads of its own, also when pytest captures nothing. These clients
log in the next `poll`, `consume` or `flush`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import confluent_kafka
from confluent_kafka import admin

LOGGER = logging.getLogger("librdkafka")


class Producer(confluent_kafka.Producer):
    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(dict(settings), logger=LOGGER)


class Consumer(confluent_kafka.Consumer):
    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(dict(settings), logger=LOGGER)


class AdminClient(admin.AdminClient):
    def __init__(self, settings: Mapping[str, object]) -> None:
        super().__init__(dict(settings), logger=LOGGER)

"""Shared helpers of tests of a broker's partitions: a listener that notes epochs, and error codes of refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trimaran.wire.errors import ErrorCode, KafkaError


class Listener:
    """Notes `+partition@epoch` and `-partition@epoch`."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def began(self, partition_index, leader):
        self.heard.append(f"+{partition_index}@{leader.epoch}")

    def ended(self, partition_index, leader_epoch):
        self.heard.append(f"-{partition_index}@{leader_epoch}")


def code_of(call: Callable[..., object], *args: Any) -> ErrorCode:
    """Returns the error code of the refusal."""
    with pytest.raises(KafkaError) as raised:
        call(*args)
    return raised.value.code

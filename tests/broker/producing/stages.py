"""Runs single stages of Produce, as far as the transport runs them immediately."""

from tests.broker.calls import finished, started
from trimaran.broker.producing.append import append
from trimaran.broker.producing.await_replicas import await_replicas
from trimaran.broker.producing.validate import find_leaders, validate
from trimaran.node.runtime.clock import now_ms

VERSION = 13


def validate_now(parts, partitions, version=VERSION):
    """Returns `Paused` if the thread is needed, otherwise None."""
    started(find_leaders(parts, partitions))
    return started(validate(parts, now_ms, version))


async def validate_all(parts, partitions, version=VERSION):
    """Validates all batches, including those that take long."""
    await finished(find_leaders(parts, partitions))
    await finished(validate(parts, now_ms, version))


def append_now(parts, acks, harness):
    started(append(parts, acks, harness.partitions.traffic))


async def settle(parts):
    """Ends the wait for replicas."""
    await finished(await_replicas(parts, 0))

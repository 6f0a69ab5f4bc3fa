"""Shared parts of tests of shards."""

from tests.broker.coordination.conftest import held_load

__all__ = ["held_load"]

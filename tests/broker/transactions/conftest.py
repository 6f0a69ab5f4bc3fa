"""What tests of shards share."""

from tests.broker.coordination.conftest import held_load

__all__ = ["held_load"]

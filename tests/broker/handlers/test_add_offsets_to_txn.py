"""AddOffsetsToTxn: the partition of a group's offsets is part of the transaction, and gets its marker."""

from __future__ import annotations

import pytest

from tests.broker.handlers.broker_client import broker_client
from tests.broker.transactions.wire_producer import SETTINGS, WireProducer, offset_of
from trimaran.wire.errors import ErrorCode

E = ErrorCode


async def test_group_is_added_to_the_transaction(tmp_path):
    """The first request creates the topic of offsets."""
    async with broker_client(tmp_path, **SETTINGS) as one:
        await one.create("t")
        producer = WireProducer(one)
        await producer.begin()
        assert await producer.add_offsets() == E.NONE
        code = E.COORDINATOR_LOAD_IN_PROGRESS
        while code in (E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR):
            code = await producer.commit_offset(5)
        assert code == E.NONE
        assert await producer.end() == E.NONE
        found = (-1, E.UNSTABLE_OFFSET_COMMIT)
        while found[1] == E.UNSTABLE_OFFSET_COMMIT:
            found = await offset_of(one)
        assert found == (5, E.NONE)


@pytest.mark.parametrize(
    ("version", "code"), [(1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)]
)
async def test_unauthorized_or_invalid_requests_are_refused(tmp_path, version, code):
    async with broker_client(tmp_path, **SETTINGS) as one:
        old, new = WireProducer(one), WireProducer(one)
        await old.begin()
        await new.begin()
        assert await old.add_offsets(version=version) == code
        assert await WireProducer(one, "").add_offsets() == E.INVALID_REQUEST

"""Which records a position deletes, in a partition that is written to at the same time."""

from itertools import count

import pytest

from tests.trimaran.client.answers import listed
from trimaran.client.offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from trimaran.client.positions import parse_position
from trimaran.client.record_deletion import deletion_in
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import TopicPartition

PARTITION = TopicPartition("t", 0)


class Growing:
    """A client of a partition that begins at offset 3 and ends at offset 10; each request for the end adds a record."""

    def __init__(self):
        self.ends = count(10)

    def call(self, _, request):
        [wanted] = request.topics[0].partitions
        if wanted.timestamp == LATEST_TIMESTAMP:
            return listed(next(self.ends), first=0)
        return listed(3 if wanted.timestamp == EARLIEST_TIMESTAMP else -1, first=0)


@pytest.mark.parametrize(
    ("position", "before", "offsets"),
    [
        ("end", 10, 7),
        ("@2100-01-01T00:00", 10, 7),  # later than every record
        ("-2", 8, 5),
        ("-100", 3, 0),
        ("start", 3, 0),
        ("5", 5, 2),
        ("3", 3, 0),
        ("2", 3, 0),
        ("10", 10, 7),
    ],
)
def test_records_before_a_position_are_deleted(position, before, offsets):
    deletion = deletion_in(Growing(), PARTITION, parse_position(position))
    assert (deletion.start, deletion.before, deletion.size) == (3, before, offsets)


def test_position_beyond_the_end_is_refused():
    with pytest.raises(
        KafkaError, match="t-0 at offset 11, but there are offsets 3 to 9"
    ) as refused:
        deletion_in(Growing(), PARTITION, parse_position("11"))
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

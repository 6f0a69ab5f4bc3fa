"""Short constructors of brokers' responses."""

from trimaran.log.batches.records import NewRecord, build_batch
from trimaran.wire.client.routing import LeaderOf
from trimaran.wire.messages import (
    describe_configs,
    fetch,
    list_offsets,
)

NOW_MS = 1_795_221_879_206
UUID = bytes(range(16))
LEADERS = {("t", index): LeaderOf(1, 0) for index in range(4)}


def config(name, value, source=5, **changes_):
    fields = {"read_only": False, "is_sensitive": False, "config_source": source, **changes_}
    return describe_configs.DescribeConfigsResourceResult(name=name, value=value, **fields)


def described_configs(*ones, kind=2, name="t", code=0, message=None):
    result = describe_configs.DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=kind,
        resource_name=name,
        configs=list(ones),
    )
    return describe_configs.DescribeConfigsResponse(results=[result])


def listed(*ones, code=0, name="t", first=1):
    """Returns one response with the offsets of the partitions from `first` on."""
    parts = [
        list_offsets.ListOffsetsPartitionResponse(
            partition_index=first + n, error_code=code, offset=each_one, timestamp=-1
        )
        for n, each_one in enumerate(ones)
    ]
    return list_offsets.ListOffsetsResponse(
        topics=[list_offsets.ListOffsetsTopicResponse(name=name, partitions=parts)]
    )


def fetched(*batches, code=0):
    part = fetch.PartitionData(
        partition_index=1,
        error_code=code,
        high_watermark=9,
        aborted_transactions=None,
        records=b"".join(batches),
    )
    topics_ = [fetch.FetchableTopicResponse(topic="t", partitions=[part])]
    return fetch.FetchResponse(responses=topics_)


def batch_of(count, offset=0):
    records = [NewRecord(None, b"v", NOW_MS - 2500 + n) for n in range(count)]
    return build_batch(records, base_offset=offset)

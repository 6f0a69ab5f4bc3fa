"""DescribeLogDirs (35): log directories of a broker and the sizes of replicas.

Versions: 2 flexible; 3 a top-level error; 4 sizes of the volumes (KIP-827); 5 a flag for cordoned directories.
"""

from trimaran.wire.codec.declarations import Struct, boolean, field, int16, int32, int64, string
from trimaran.wire.schema import Message, request, response


class DescribableLogDirTopic(Struct):
    topic: string
    partitions: list[int32]


@request(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsRequest(Message):
    topics: list[DescribableLogDirTopic] | None


class DescribeLogDirsPartition(Struct):
    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: boolean


class DescribeLogDirsTopic(Struct):
    name: string
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: int16 = 0
    log_dir: string
    topics: list[DescribeLogDirsTopic]
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: boolean = field("5+", default=False, ignorable=True)


@response(key=35, versions="0-5", flexible="2+")
class DescribeLogDirsResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult]

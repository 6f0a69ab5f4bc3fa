"""DescribeConfigs (32): configs of topics, brokers, groups and client metrics.

Versions: 1 sources and synonyms (KIP-226); 3 types and documentation (KIP-569); 4 flexible.
"""

from trimaran.wire.codec.declarations import Struct, boolean, field, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class DescribeConfigsResource(Struct):
    resource_type: int8
    resource_name: string
    configuration_keys: list[string] | None


@request(key=32, versions="0-4", flexible="4+")
class DescribeConfigsRequest(Message):
    resources: list[DescribeConfigsResource]
    include_synonyms: boolean = field("1+", default=False)
    include_documentation: boolean = field("3+", default=False)


class DescribeConfigsSynonym(Struct):
    name: string
    value: string | None
    source: int8


class DescribeConfigsResourceResult(Struct):
    name: string
    value: string | None
    read_only: boolean
    is_default: boolean = field("0", default=False)
    config_source: int8 = field("1+", default=-1, ignorable=True)
    is_sensitive: boolean
    synonyms: list[DescribeConfigsSynonym] = field("1+", factory=list, ignorable=True)
    config_type: int8 = field("3+", default=0, ignorable=True)
    documentation: string | None = field("3+", default="", ignorable=True)


class DescribeConfigsResult(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    resource_type: int8
    resource_name: string
    configs: list[DescribeConfigsResourceResult]


@response(key=32, versions="0-4", flexible="4+")
class DescribeConfigsResponse(Message):
    throttle_time_ms: int32 = 0
    results: list[DescribeConfigsResult]

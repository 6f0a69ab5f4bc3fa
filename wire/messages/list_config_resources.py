"""ListConfigResources (74): lists resources that have configs, by type.

Versions: 0 only client metrics, then named ListClientMetricsResources (KIP-714); 1 any types
(KIP-1142).
"""

from trimaran.wire.codec.declarations import Struct, field, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


@request(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Message):
    resource_types: list[int8] = field("1+", factory=list)


class ConfigResource(Struct):
    resource_name: string
    resource_type: int8 = field("1+", default=16, ignorable=True)


@response(key=74, versions="0-1", flexible="0+")
class ListConfigResourcesResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    config_resources: list[ConfigResource]

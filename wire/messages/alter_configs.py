"""AlterConfigs (33): replaces all configs of resources; IncrementalAlterConfigs replaces it (KIP-133).

Versions: 2 flexible.
"""

from trimaran.wire.codec.declarations import Struct, boolean, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class AlterableConfig(Struct):
    name: string
    value: string | None


class AlterConfigsResource(Struct):
    resource_type: int8
    resource_name: string
    configs: list[AlterableConfig]


@request(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Message):
    resources: list[AlterConfigsResource]
    validate_only: boolean


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    resource_type: int8
    resource_name: string


@response(key=33, versions="0-2", flexible="2+")
class AlterConfigsResponse(Message):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse]

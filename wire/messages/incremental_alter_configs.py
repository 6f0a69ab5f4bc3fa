"""IncrementalAlterConfigs (44): sets, deletes and edits single configs (KIP-339).

Versions: 1 flexible.
"""

from trimaran.wire.codec.declarations import Struct, boolean, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class AlterableConfig(Struct):
    name: string
    config_operation: int8
    value: string | None


class AlterConfigsResource(Struct):
    resource_type: int8
    resource_name: string
    configs: list[AlterableConfig]


@request(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Message):
    resources: list[AlterConfigsResource]
    validate_only: boolean


class AlterConfigsResourceResponse(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    resource_type: int8
    resource_name: string


@response(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int32 = 0
    responses: list[AlterConfigsResourceResponse]

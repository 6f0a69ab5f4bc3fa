"""ApiVersions (18): the requests that a node supports; the first request of most clients.

The response has the old header in every version, because the client does not know our versions yet.
Versions: 1 throttle time; 3 flexible, the client's software and the cluster's features (KIP-511,
KIP-584); 4 features whose lowest version is 0 (KIP-1022); 5 the cluster and the node that the client
expects (KIP-1242).
"""

from trimaran.wire.codec.declarations import (
    Struct,
    boolean,
    field,
    int16,
    int32,
    int32_node_id,
    int64_offset,
    string,
)
from trimaran.wire.schema import Message, request, response


@request(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest(Message):
    client_software_name: string = field("3+", default="", ignorable=True)
    client_software_version: string = field("3+", default="", ignorable=True)
    cluster_id: string | None = field("5+", default=None, ignorable=True)
    node_id: int32_node_id = field("5+", default=-1, ignorable=True)


class ApiVersion(Struct):
    api_key: int16
    min_version: int16
    max_version: int16


class SupportedFeatureKey(Struct):
    name: string
    min_version: int16
    max_version: int16


class FinalizedFeatureKey(Struct):
    name: string
    max_version_level: int16
    min_version_level: int16


@response(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse(Message):
    error_code: int16 = 0
    api_keys: list[ApiVersion]
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", factory=list, tag=0, ignorable=True)
    finalized_features_epoch: int64_offset = field("3+", default=-1, tag=1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = field("3+", factory=list, tag=2, ignorable=True)
    zk_migration_ready: boolean = field("3+", default=False, tag=3, ignorable=True)

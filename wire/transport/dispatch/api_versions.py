"""ApiVersions (18): the API versions that this node serves, and the features of the cluster.

Source: KIP-35, KIP-511 (software names; the answer to a version that is too new), KIP-584 (features), KAFKA-17011
(versions before 4 omit features whose lowest level is 0), KIP-1242 (clients name the node that they expect).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trimaran.wire.codec.declarations import Versions
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import NO_OFFSET, NodeId, Offset
from trimaran.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from trimaran.wire.transport.requests.calls import Call

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
# Longer names are refused, because they are kept while the connection is open; Kafka does not limit them.
_SOFTWARE_CHARS_MAX = 256


@dataclass(slots=True, frozen=True)
class Features:
    """Feature levels by name. `finalized_epoch` is the metadata offset to which they refer, -1 if unknown."""

    supported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finalized: Mapping[str, int] = field(default_factory=dict)
    finalized_epoch: Offset = NO_OFFSET


class NodeIdentity(NamedTuple):
    """The cluster and the id of a node, as clients know them from Metadata."""

    cluster_id: str
    node_id: NodeId


def api_versions_response(
    request: ApiVersionsRequest,
    call: Call,
    advertised: Mapping[int, Versions],
    features: Features,
    identity: NodeIdentity | None = None,
) -> ApiVersionsResponse:
    """Returns the response, and stores the client's software name and version on the connection.

    A client that expects another cluster or node than `identity` gets REBOOTSTRAP_REQUIRED (KIP-1242); with None this
    is not checked, as in Kafka's controllers.
    """
    version = call.header.api_version
    if version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_is_software(word) for word in software):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
        call.connection.client_software = software
    if identity is not None and _expects_another(request, version, identity):
        return ApiVersionsResponse(error_code=ErrorCode.REBOOTSTRAP_REQUIRED, api_keys=[])
    return ApiVersionsResponse(
        api_keys=_keys(advertised),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in features.supported.items()
            if version >= 4 or low > 0
        ],
        finalized_features_epoch=features.finalized_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in features.finalized.items()
            if level
        ],
    )


def _expects_another(request: ApiVersionsRequest, version: int, identity: NodeIdentity) -> bool:
    if version < 5 or request.cluster_id is None:
        return False
    return (request.cluster_id, request.node_id) != identity


def unsupported_api_versions(served: Versions) -> ApiVersionsResponse:
    """Returns the v0 body for an unsupported version; like Kafka's, it lists only the versions of ApiVersions."""
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_keys({18: served})
    )


def _keys(versions: Mapping[int, Versions]) -> list[ApiVersion]:
    return [
        ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in versions.items()
    ]


def _is_software(word: str) -> bool:
    return len(word) <= _SOFTWARE_CHARS_MAX and _SOFTWARE.fullmatch(word) is not None

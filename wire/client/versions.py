"""The version of a request that two nodes have in common. Source: KIP-35 (`NodeApiVersions`),
KIP-896 (lowest versions).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimaran.wire.client.errors import VersionMismatch
from trimaran.wire.codec.declarations import Versions
from trimaran.wire.identity import Offset
from trimaran.wire.messages.api_versions import ApiVersionsResponse
from trimaran.wire.messages.registry import ApiKey
from trimaran.wire.schema import Message

# The lowest versions that our clients use: in lower versions, records have older formats, and topics, epochs or filters
# cannot be named. They are the lowest versions that Kafka 4.0 serves; lower ones are declared for captures and for old
# peers.
_LOWEST: Mapping[int, int] = {
    ApiKey.PRODUCE: 3,
    ApiKey.FETCH: 4,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.WRITE_TXN_MARKERS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.ALTER_PARTITION: 2,
}


@dataclass(frozen=True, slots=True)
class Negotiated:
    """The capabilities that a node reported: versions by api key, features by name."""

    versions: Mapping[int, Versions]
    supported_features: Mapping[str, Versions]
    finalized_features: Mapping[str, int]
    finalized_features_epoch: Offset

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> Negotiated:
        return cls(
            {key.api_key: Versions(key.min_version, key.max_version) for key in response.api_keys},
            {f.name: Versions(f.min_version, f.max_version) for f in response.supported_features},
            {f.name: f.max_version_level for f in response.finalized_features},
            response.finalized_features_epoch,
        )

    def best(self, request: type[Message]) -> int:
        """Returns the highest version that both sides support.

        Raises:
            VersionMismatch: there is no common version.
        """
        theirs = self.versions.get(request.KEY)
        if theirs is None:
            raise VersionMismatch(f"the node does not serve {request.__name__}")
        lowest = max(request.VERSIONS.low, _LOWEST.get(request.KEY, 0))
        low, high = max(theirs.low, lowest), min(theirs.high, request.VERSIONS.high)
        if low > high:
            raise VersionMismatch(
                f"the node serves {request.__name__} v{theirs.low} to v{theirs.high}, "
                f"we speak v{lowest} to v{request.VERSIONS.high}"
            )
        return high

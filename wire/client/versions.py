"""Which version of a request two nodes have in common. Source: KIP-35 (`NodeApiVersions`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wire.client.errors import VersionMismatch
from wire.messages.api_versions import ApiVersionsResponse
from wire.schema import Message, Versions


@dataclass(frozen=True, slots=True)
class Negotiated:
    """What a node told about itself: versions by api key, features by name."""

    versions: Mapping[int, Versions]
    supported_features: Mapping[str, Versions]
    finalized_features: Mapping[str, int]
    finalized_features_epoch: int

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> Negotiated:
        return cls(
            {key.api_key: Versions(key.min_version, key.max_version) for key in response.api_keys},
            {f.name: Versions(f.min_version, f.max_version) for f in response.supported_features},
            {f.name: f.max_version_level for f in response.finalized_features},
            response.finalized_features_epoch,
        )

    def best(self, request: type[Message]) -> int:
        """The highest version that both sides know.

        Raises:
            VersionMismatch: there is none.
        """
        theirs = self.versions.get(request.KEY)
        if theirs is None:
            raise VersionMismatch(f"the node does not serve {request.__name__}")
        low, high = max(theirs.low, request.VERSIONS.low), min(theirs.high, request.VERSIONS.high)
        if low > high:
            raise VersionMismatch(
                f"the node serves {request.__name__} v{theirs.low} to v{theirs.high}, "
                f"we speak v{request.VERSIONS.low} to v{request.VERSIONS.high}"
            )
        return high

"""UpdateFeatures (57): changes the levels of the cluster's features (KIP-584).

Versions: 1 validation only, and the type of downgrade (KIP-778); 2 no result per feature
(KIP-1022).
"""

from trimaran.wire.codec.declarations import Struct, boolean, field, int8, int16, int32, string
from trimaran.wire.schema import Message, request, response


class FeatureUpdateKey(Struct):
    feature: string
    max_version_level: int16
    allow_downgrade: boolean = field("0", default=False)
    upgrade_type: int8 = field("1+", default=1)


@request(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest(Message):
    timeout_ms: int32 = 60000
    feature_updates: list[FeatureUpdateKey]
    validate_only: boolean = field("1+", default=False)


class UpdatableFeatureResult(Struct):
    feature: string
    error_code: int16 = 0
    error_message: string | None = None


@response(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    results: list[UpdatableFeatureResult] = field("0-1", factory=list, ignorable=True)

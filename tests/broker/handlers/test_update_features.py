"""UpdateFeatures through a broker."""

from tests.broker.handlers.broker_client import broker_client, refusal_by_controller
from trimaran.quorum.metadata.versions import LATEST
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def update(level, *, upgrade_type=1, validate_only=False, feature="metadata.version"):
    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=upgrade_type)
    return UpdateFeaturesRequest(feature_updates=[key], validate_only=validate_only)


async def test_invalid_level_is_refused(tmp_path):
    async with broker_client(tmp_path) as one:
        down = await one.call(update(29, upgrade_type=2))
        assert down.error_code == ErrorCode.INVALID_UPDATE_VERSION
        same = await one.call(update(LATEST, validate_only=True))
        assert same.error_code == 0


async def test_level_is_lowered_and_raised(tmp_path):
    name = "eligible.leader.replicas.version"
    async with broker_client(tmp_path) as one:
        for level, upgrade_type in ((0, 2), (1, 1)):
            answer = await one.call(update(level, feature=name, upgrade_type=upgrade_type))
            assert answer.error_code == 0, answer.error_message
            await one.seen(lambda image, level=level: image.features.levels.get(name, 0) == level)


async def test_refusal_is_returned_at_top(tmp_path):
    answer = await refusal_by_controller(tmp_path, update(30), 1)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

"""UpdateFeatures on the controller."""

from tests.broker.handlers.test_update_features import update
from tests.quorum.controller.handlers.controller_client import NOBODY, controller_client
from trimaran.wire.errors import ErrorCode

ELIGIBLE = "eligible.leader.replicas.version"


async def test_feature_level_is_recorded(tmp_path):
    async with controller_client(tmp_path) as one:
        for level, upgrade_type in ((0, 2), (1, 1)):
            answer = await one.call(update(level, feature=ELIGIBLE, upgrade_type=upgrade_type))
            assert answer.error_code == 0, answer.error_message
            assert one.image.features.levels.get(ELIGIBLE, 0) == level


async def test_unsupported_feature_levels_are_refused(tmp_path):
    async with controller_client(tmp_path) as one:
        for request in (update(29), update(99), update(1, feature="no.such.feature")):
            answer = await one.call(request, 1)
            assert ErrorCode.INVALID_UPDATE_VERSION in {
                answer.error_code,
                *(result.error_code for result in answer.results),
            }
        assert one.image.features.metadata_version == 33


async def test_unauthorized_client_updates_no_features(tmp_path):
    async with controller_client(tmp_path, **NOBODY) as one:
        answer = await one.call(update(33))
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED

"""UpdateFeatures as a decision (KIP-584, KIP-778): all levels change or none; Kafka's messages for refusals."""

from dataclasses import dataclass, field

import pytest

from tests.quorum.config_of import config_of
from tests.quorum.metadata.build import broker, config, features, image_of
from trimaran.quorum.controller.configs import feature_updates
from trimaran.quorum.controller.configs.feature_updates import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    QuorumFeatures,
    update_features,
)
from trimaran.quorum.controller.tasks.activation import activation_records
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.features import FEATURES, Feature, default_level
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from trimaran.wire.records.brokers import BrokerFeature, ControllerFeature, RegisterControllerRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.records.transactions import BeginTransactionRecord

CONFIG = config_of()
ELR = "eligible.leader.replicas.version"


@dataclass
class FakeQuorum:
    """A substitute for the driver, which has its own tests; it notes its calls."""

    kraft_version: int = 0
    upgrades: list[tuple[int, int, bool]] = field(default_factory=list)

    def upgrade_kraft_version(self, level, epoch, *, validate_only=False):
        if level > 1:
            raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "no such level")
        self.upgrades.append((level, epoch, validate_only))


def update(*updates, image, quorum=None, controllers=(1,), api_version=2, validate_only=False):
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how)
            for name, level, how in updates
        ],
        validate_only=validate_only,
    )
    cluster = QuorumFeatures(1, controllers, quorum or FakeQuorum(), 7)
    return update_features(request, image, cluster, CONFIG, api_version=api_version)


def refused(*updates, **options):
    with pytest.raises(KafkaError) as caught:
        update(*updates, **options)
    assert caught.value.code is ErrorCode.INVALID_UPDATE_VERSION
    prefix = "The update failed for all features since the following feature had an error: "
    assert caught.value.message.startswith(prefix)
    return caught.value.message.removeprefix(prefix)


MV = "metadata.version"
AT_29 = image_of(features(29), broker(1))


def test_metadata_version_changes_only_without_loss():
    assert update((MV, 30, UPGRADE), image=AT_29).records == [features(30)]
    assert update((MV, 23, SAFE_DOWNGRADE), image=AT_29).records == [features(23)]
    assert update((MV, 29, UPGRADE), image=AT_29).records == [features(29)]
    assert update((MV, 30, UPGRADE), image=AT_29, validate_only=True).records == []


@pytest.mark.parametrize(
    ("level", "how", "message"),
    [
        (
            22,
            SAFE_DOWNGRADE,
            "Unsupported metadata.version downgrade from 29 to 22. Refusing to perform the requested "
            "downgrade because it might delete metadata information.",
        ),
        (
            22,
            UNSAFE_DOWNGRADE,
            "Unsupported metadata.version downgrade from 29 to 22. Unsafe metadata downgrade is not "
            "supported in this version.",
        ),
        (
            28,
            UPGRADE,
            "Invalid update version 28 for feature metadata.version. Can't downgrade the version of this "
            "feature without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            30,
            SAFE_DOWNGRADE,
            "Invalid update version 30 for feature metadata.version. Can't downgrade to a newer version.",
        ),
        (
            34,
            UPGRADE,
            "Invalid update version 34 for feature metadata.version. Local controller 1 only supports versions 7-33",
        ),
        (
            6,
            SAFE_DOWNGRADE,
            "Invalid update version 6 for feature metadata.version. Local controller 1 only supports versions 7-33",
        ),
        (
            -1,
            SAFE_DOWNGRADE,
            "Invalid update version -1 for feature metadata.version. A feature version cannot be less than 0.",
        ),
        (
            30,
            9,
            "Invalid update version 30 for feature metadata.version. "
            "The controller does not support the given upgrade type.",
        ),
    ],
)
def test_metadata_version_is_refused(level, how, message):
    assert refused((MV, level, how), image=AT_29) == message


def test_every_broker_and_controller_must_support_it():
    old = broker(2, fenced=True)
    old.features = [BrokerFeature(name=MV, min_supported_version=7, max_supported_version=29)]
    assert refused((MV, 30, UPGRADE), image=image_of(old, base=AT_29)).endswith(
        "Broker 2 only supports versions 7-29"
    )
    controller = RegisterControllerRecord(
        controller_id=2,
        incarnation_id=bytes(16),
        zk_migration_ready=False,
        end_points=[],
        features=[ControllerFeature(name=MV, min_supported_version=7, max_supported_version=29)],
    )
    both = {"image": image_of(controller, base=AT_29), "controllers": (1, 2)}
    assert refused((MV, 30, UPGRADE), **both).endswith("Controller 2 only supports versions 7-29")
    new = controller.replace(
        features=[ControllerFeature(name=MV, min_supported_version=7, max_supported_version=30)]
    )
    both["image"] = image_of(new, base=AT_29)
    assert update((MV, 30, UPGRADE), **both).records
    itself = image_of(controller.replace(controller_id=1), base=AT_29)
    assert update((MV, 30, UPGRADE), image=itself).records, "it was another release then"
    assert refused((MV, 30, UPGRADE), image=AT_29, controllers=(1, 2)).endswith(
        "controller 2 has not registered, and may not support this feature"
    )
    # Below 3.7 controllers do not register.
    assert update((MV, 12, UPGRADE), image=image_of(features(11)), controllers=(1, 2)).records
    assert update((MV, 15, UPGRADE), image=image_of(features(14)), controllers=(1, 2)).records
    assert refused((MV, 16, UPGRADE), image=image_of(features(15)), controllers=(1, 2))


def test_unserved_features_are_refused():
    unserved = [feature.name for feature in FEATURES.values() if not feature.served]
    for name in (*unserved, "foo.version"):
        assert refused((name, 1, UPGRADE), image=AT_29).endswith(
            "Local controller 1 does not support this feature."
        )
    assert refused(("foo.version", 0, SAFE_DOWNGRADE), image=AT_29).endswith(
        "Feature foo.version not found."
    )


def test_features_change_together_or_not():
    assert refused((MV, 30, UPGRADE), ("foo.version", 1, UPGRADE), image=AT_29)
    quorum = FakeQuorum()
    refused(("kraft.version", 1, UPGRADE), ("foo.version", 1, UPGRADE), image=AT_29, quorum=quorum)
    assert quorum.upgrades == []


def test_a_hundred_features_may_be_named_at_once():
    many = [(f"f{n}", 1, UPGRADE) for n in range(101)]
    refused(*many[1:], image=AT_29)
    with pytest.raises(KafkaError) as caught:
        update(*many, image=AT_29)
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_results_of_each_feature_are_for_old_clients():
    results = update((MV, 30, UPGRADE), image=AT_29, api_version=1).response.results
    assert [result.feature for result in results] == [MV]
    assert update((MV, 30, UPGRADE), image=AT_29).response.results == []


def test_kraft_version_is_the_quorums():
    quorum = FakeQuorum()
    result = update(("kraft.version", 1, UPGRADE), image=AT_29, quorum=quorum)
    assert (result.records, quorum.upgrades) == ([NoOpRecord()], [(1, 7, False)])
    assert refused(("kraft.version", 2, UPGRADE), image=AT_29).endswith(
        "only supports versions 0-1"
    )
    upgraded = FakeQuorum(kraft_version=1)
    assert refused(("kraft.version", 0, SAFE_DOWNGRADE), image=AT_29, quorum=upgraded).endswith(
        "Can't downgrade the version of this feature."
    )


def test_unset_feature_is_at_level_zero():
    assert refused((ELR, 1, SAFE_DOWNGRADE), image=image_of(features(29))).endswith(
        "Can't downgrade to a newer version."
    )
    assert update((ELR, 0, UPGRADE), image=image_of(features(29))).records == [
        FeatureLevelRecord(name=ELR, feature_level=0)
    ]


def test_eligible_leaders_make_min_insync_replicas_the_clusters():
    """KIP-966: the cluster gets a value and brokers lose theirs; the feature needs a metadata.version that has it."""
    assert FEATURES[ELR].needs == {1: {MV: 23}}
    on = FeatureLevelRecord(name=ELR, feature_level=1)
    image = image_of(
        features(23),
        config("min.insync.replicas", "2", (4, "1")),
        config("log.retention.ms", "7", (4, "2")),
        config("min.insync.replicas", "2", (2, "topic")),
    )
    assert update((ELR, 1, UPGRADE), image=image).records == [
        config("min.insync.replicas", "1", (4, "")),
        config("min.insync.replicas", None, (4, "1")),
        on,
    ]
    has_one = image_of(config("min.insync.replicas", "3", (4, "")), base=image)
    assert update((ELR, 1, UPGRADE), image=has_one).records == [
        config("min.insync.replicas", None, (4, "1")),
        on,
    ]
    is_on = image_of(on, base=image)
    assert update((MV, 24, UPGRADE), image=is_on).records == [features(24)]
    assert refused((ELR, 1, UPGRADE), image=image_of(features(22))).endswith(
        f"{ELR} could not be set to 1 because it depends on metadata.version level 23"
    )


def test_needed_level_may_be_present_or_updated_too(monkeypatch):
    group, needed = "group.version", {"group.version": {ELR: 1}}
    monkeypatch.setattr(feature_updates, "needs_of", lambda name, _level: needed.get(name, {}))
    without = image_of(features())
    level = FeatureLevelRecord(name=group, feature_level=1)
    on = FeatureLevelRecord(name=ELR, feature_level=1)
    assert update((group, 1, UPGRADE), image=image_of(on, base=without)).records == [level]
    assert level in update((group, 1, UPGRADE), (ELR, 1, UPGRADE), image=without).records
    assert refused((group, 1, UPGRADE), image=without).endswith(f"it depends on {ELR} level 1")


def test_new_cluster_gets_levels_of_its_metadata_version():
    feature = Feature("f", {1: 22, 2: 24}, served=2)
    levels = [default_level(feature, level) for level in (21, 22, 23, 24, 30)]
    assert levels == [0, 1, 1, 2, 2]
    assert default_level(Feature("f", {1: 22}, served=0), 30) == 0


def test_metadata_loss_of_downgrade_matches_naive_twin():
    def naive(present, wanted):
        changed = {7, 8, 11, 13, 14, 15, 17, 23, 30}
        level = present
        while level > wanted:
            if level in changed:
                return True
            level -= 1
        return False

    for present in range(7, 31):
        for wanted in range(7, present + 1):
            assert versions.loses_metadata(present, wanted) == naive(present, wanted)


def test_old_log_begins_without_transaction():
    """Nodes below 3.6-IV1 do not know transactions (KIP-868)."""
    assert activation_records(image_of(), [features(12)], in_transaction=False) == [features(12)]
    records = activation_records(image_of(), [features(13)], in_transaction=False)
    assert isinstance(records[0], BeginTransactionRecord)

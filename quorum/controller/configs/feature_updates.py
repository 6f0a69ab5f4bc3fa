"""Decides UpdateFeatures: either all levels change or none. Source: Kafka's `FeatureControlManager`, KIP-584, KIP-778.

A level must be supported by this controller, by every registered broker including fenced ones, and by every controller
of the quorum. `kraft.version` belongs to the quorum: `Quorum.upgrade_kraft_version` changes it with control records.
Unsafe downgrades of metadata.version are refused, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from trimaran.node.config.server import ServerConfig
from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.features import ELR_VERSION, FEATURES, REGISTERED_FEATURES, needs_of
from trimaran.quorum.metadata.image import BROKER_RESOURCE, FeatureRange, MetadataImage
from trimaran.quorum.metadata.versions import KRAFT_VERSION, METADATA_VERSION
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import LeaderEpoch, NodeId
from trimaran.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from trimaran.wire.records.configs import ConfigRecord
from trimaran.wire.records.features import FeatureLevelRecord
from trimaran.wire.records.misc import NoOpRecord
from trimaran.wire.schema import Message

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
MIN_ISR = "min.insync.replicas"
# From this version on the response has one error for the whole request and no result for each feature.
VERSION_WITHOUT_RESULTS = 2
# There are few features, so no valid request has more updates.
UPDATES_MAX = 100


class Quorum(Protocol):
    """The part of `QuorumNode` that manages kraft.version."""

    @property
    def kraft_version(self) -> int: ...

    def upgrade_kraft_version(
        self, level: int, epoch: LeaderEpoch, *, validate_only: bool = False
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class QuorumFeatures:
    """The facts that levels are checked against: this controller, the ids of the quorum's controllers, and the quorum
    in `epoch`.
    """

    node_id: NodeId
    controllers: Collection[NodeId]
    quorum: Quorum
    epoch: LeaderEpoch


def update_features(
    request: UpdateFeaturesRequest,
    image: MetadataImage,
    cluster: QuorumFeatures,
    config: ServerConfig,
    *,
    api_version: int,
) -> Result[Message, UpdateFeaturesResponse]:
    """Changes feature levels, or only validates the change.

    Raises:
        KafkaError: INVALID_UPDATE_VERSION, with the feature in the message; INVALID_REQUEST.
    """
    updates = {update.feature: update for update in request.feature_updates}
    if len(updates) > UPDATES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"at most {UPDATES_MAX} features at once")
    proposed = {METADATA_VERSION: image.features.metadata_version, **image.features.levels}
    proposed |= {name: update.max_version_level for name, update in updates.items()}
    records: list[Message] = []
    # kraft.version comes last: it is appended immediately, so no other update may fail afterwards.
    for update in sorted(updates.values(), key=lambda update: update.feature == KRAFT_VERSION):
        try:
            records += _update(
                update, image, proposed, cluster, validate_only=request.validate_only
            )
        except KafkaError as error:
            raise KafkaError(
                error.code,
                "The update failed for all features since the following feature had an error: "
                + error.message,
            ) from error
    if ELR_VERSION in updates and proposed[ELR_VERSION] > 0:
        records = [*_elr_safety(image, config), *records]
    results = [UpdatableFeatureResult(feature=name) for name in updates]
    response = UpdateFeaturesResponse(
        results=results if api_version < VERSION_WITHOUT_RESULTS else []
    )
    return Result([] if request.validate_only else records, response)


def _update(
    update: FeatureUpdateKey,
    image: MetadataImage,
    proposed: dict[str, int],
    cluster: QuorumFeatures,
    *,
    validate_only: bool,
) -> list[Message]:
    name, level = update.feature, update.max_version_level
    how = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if how not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        raise _refused(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _refused(update, "A feature version cannot be less than 0.")
    if (why := _why_unsupported(name, level, image, cluster)) is not None:
        raise _refused(update, why)
    present = _present(name, image, cluster)
    if level < present and how == UPGRADE:
        raise _refused(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to either "
            "safe or unsafe downgrade.",
        )
    if level > present and how != UPGRADE:
        raise _refused(update, "Can't downgrade to a newer version.")
    if name == METADATA_VERSION:
        _check_metadata_version(present, level, unsafe=how == UNSAFE_DOWNGRADE)
    elif name == KRAFT_VERSION:
        return _update_kraft_version(update, how, present, cluster, validate_only=validate_only)
    else:
        _check_needs(update, proposed)
    return [FeatureLevelRecord(name=name, feature_level=level)]


def _present(name: str, image: MetadataImage, cluster: QuorumFeatures) -> int:
    if name == METADATA_VERSION:
        return image.features.metadata_version
    if name == KRAFT_VERSION:
        return cluster.quorum.kraft_version
    return image.features.levels.get(name, 0)


def _check_metadata_version(present: int, level: int, *, unsafe: bool) -> None:
    if versions.loses_metadata(present, level):
        why = (
            "Unsafe metadata downgrade is not supported in this version."
            if unsafe
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Unsupported metadata.version downgrade from {present} to {level}. {why}",
        )


def _update_kraft_version(
    update: FeatureUpdateKey,
    how: int,
    present: int,
    cluster: QuorumFeatures,
    *,
    validate_only: bool,
) -> list[Message]:
    level = update.max_version_level
    if how == UPGRADE:
        cluster.quorum.upgrade_kraft_version(level, cluster.epoch, validate_only=validate_only)
        # When this record is committed, the control records are also committed.
        return [NoOpRecord()]
    if level != present:
        raise _refused(update, "Can't downgrade the version of this feature.")
    return []


def _check_needs(update: FeatureUpdateKey, proposed: dict[str, int]) -> None:
    name, level = update.feature, update.max_version_level
    if name not in FEATURES:
        raise _refused(update, f"Feature {name} not found.")
    for other, least in needs_of(name, level).items():
        if proposed.get(other, 0) < least:
            raise _refused(
                update,
                f"{name} could not be set to {level} because it depends on {other} level {least}",
            )


def _why_unsupported(
    name: str, level: int, image: MetadataImage, cluster: QuorumFeatures
) -> str | None:
    local = _range_problem(name, level, f"Local controller {cluster.node_id}", REGISTERED_FEATURES)
    if local is not None:
        return local
    for broker in sorted(image.cluster.brokers.values(), key=lambda broker: broker.id):
        if (why := _range_problem(name, level, f"Broker {broker.id}", broker.features)) is not None:
            return why
    if image.features.metadata_version < versions.CONTROLLER_REGISTRATION:
        return None  # controllers do not register at that level
    for controller in sorted(
        image.cluster.controllers.values(), key=lambda controller: controller.id
    ):
        who = f"Controller {controller.id}"
        if controller.id != cluster.node_id and (
            why := _range_problem(name, level, who, controller.features)
        ):
            return why
    for node_id in sorted(cluster.controllers):
        if node_id != cluster.node_id and node_id not in image.cluster.controllers:
            return f"controller {node_id} has not registered, and may not support this feature"
    return None


def _range_problem(name: str, level: int, who: str, ranges: Iterable[FeatureRange]) -> str | None:
    """Returns the reason why a node does not support the level, or None if it does. A feature that a node does not name
    has level 0. A node that has not registered kraft.version is not checked for it, because the quorum itself queries
    its voters.
    """
    low, high = next(
        ((range_.min_level, range_.max_level) for range_ in ranges if range_.name == name), (0, 0)
    )
    if name == KRAFT_VERSION and high == 0:
        return None
    if low <= level <= high:
        return None
    if high == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {low}" + (f"-{high}" if high != low else "")


def _refused(update: FeatureUpdateKey, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
    )


def _elr_safety(image: MetadataImage, config: ServerConfig) -> list[Message]:
    """Returns the records that make min.insync.replicas safe for eligible leader replicas: it is set for the cluster or
    a topic, never for one broker (KIP-966).
    """
    records: list[Message] = []
    if MIN_ISR not in image.configs.of(BROKER_RESOURCE, ""):
        records.append(min_isr_record("", str(config[MIN_ISR])))
    for (kind, name), values in sorted(image.configs.by_resource.items()):
        if kind == BROKER_RESOURCE and name and MIN_ISR in values:
            records.append(min_isr_record(name, None))
    return records


def min_isr_record(broker: str, value: str | None) -> ConfigRecord:
    """Returns the record that sets min.insync.replicas of one broker, or of all for an empty name; None deletes it."""
    return ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name=broker, name=MIN_ISR, value=value
    )

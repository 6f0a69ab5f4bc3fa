"""The state that decisions read, built from an image."""

from tests.quorum.config_of import config_of
from trimaran.quorum.controller.partitions.index import PartitionIndex
from trimaran.quorum.controller.partitions.state import ControllerState
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.wire.records.features import FeatureLevelRecord


def state_of(image: MetadataImage, **keys: object) -> ControllerState:
    """Returns the state of an image. `keys` are the controller's configuration, with underscores for dots."""
    return ControllerState(image, PartitionIndex.of(image.topics), config_of(**keys))


def eligible_leaders() -> FeatureLevelRecord:
    """Returns the record that enables KIP-966."""
    return FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)

"""Registrations of controllers: which endpoints and features each has (KIP-919).

Source: `ClusterControlManager.registerController` of Kafka.
"""

from __future__ import annotations

from node.runtime.deferred import Result
from quorum.metadata import versions
from quorum.metadata.image import MetadataImage
from quorum.metadata.records import controller_record
from wire.errors import ErrorCode, KafkaError
from wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from wire.records.brokers import ControllerEndpoint, ControllerFeature, RegisterControllerRecord
from wire.schema import Message


def register_controller(
    request: ControllerRegistrationRequest, image: MetadataImage
) -> Result[Message, ControllerRegistrationResponse]:
    """Writes down what a controller says of itself, unless that is written already: a request that is sent again adds
    nothing to the log.

    Raises:
        KafkaError: INVALID_REGISTRATION, no controller's id, listeners without names or with the same one;
            UNSUPPORTED_VERSION, nodes of the cluster's metadata.version could not read it.
    """
    if image.features.metadata_version < versions.CONTROLLER_REGISTRATION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    if request.controller_id < 0:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"{request.controller_id} is no controller's id"
        )
    names = [one.name for one in request.listeners]
    if not all(names) or len(set(names)) != len(names):
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION,
            f"the listeners of controller {request.controller_id} need a name each",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
            )
            for one in request.listeners
        ],
        features=[
            ControllerFeature(
                name=one.name,
                min_supported_version=one.min_supported_version,
                max_supported_version=one.max_supported_version,
            )
            for one in request.features
        ],
    )
    known = image.cluster.controllers.get(request.controller_id)
    is_news = known is None or controller_record(known) != record
    return Result([record] if is_news else [], ControllerRegistrationResponse())

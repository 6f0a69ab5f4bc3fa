"""Registrations of controllers: the endpoints and features of each (KIP-919), and their removal (KIP-1312).

Source: `registerController` and `unregisterController` of Kafka's `ClusterControlManager`.
"""

from __future__ import annotations

from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.metadata import versions
from trimaran.quorum.metadata.image import MetadataImage
from trimaran.quorum.metadata.records import controller_record
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from trimaran.wire.messages.unregister_controller import UnregisterControllerResponse
from trimaran.wire.records.brokers import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterControllerRecord,
)
from trimaran.wire.schema import Message
from trimaran.wire.text.endpoint import endpoints_problem


def register_controller(
    request: ControllerRegistrationRequest, image: MetadataImage
) -> Result[Message, ControllerRegistrationResponse]:
    """Records the registration of a controller, unless it is unchanged: a repeated request does not write to the log.

    Raises:
        KafkaError: INVALID_REGISTRATION if the id is not a controller's, or an endpoint is not a valid address;
            UNSUPPORTED_VERSION if the cluster's metadata.version has no such records.
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
    if (why := endpoints_problem(request.listeners)) is not None:
        raise KafkaError(
            ErrorCode.INVALID_REGISTRATION, f"of controller {request.controller_id} {why}"
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=listener.name,
                host=listener.host,
                port=listener.port,
                security_protocol=listener.security_protocol,
            )
            for listener in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    known = image.cluster.controllers.get(request.controller_id)
    is_news = known is None or controller_record(known) != record
    return Result([record] if is_news else [], ControllerRegistrationResponse())


def unregister_controller(
    controller_id: NodeId, image: MetadataImage, active_id: NodeId
) -> Result[Message, UnregisterControllerResponse]:
    """Removes the registration of a controller. A running controller registers again at once.

    Raises:
        KafkaError: INVALID_REQUEST for the active controller;
            UNSUPPORTED_VERSION if the cluster's metadata.version has no such record;
            CONTROLLER_ID_NOT_REGISTERED.
    """
    if controller_id == active_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active."
        )
    if image.features.metadata_version < versions.CONTROLLER_UNREGISTRATION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    if controller_id not in image.cluster.controllers:
        raise KafkaError(
            ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
            f"Controller ID {controller_id} is not currently registered.",
        )
    record = UnregisterControllerRecord(controller_id=controller_id)
    return Result([record], UnregisterControllerResponse(error_message=None))

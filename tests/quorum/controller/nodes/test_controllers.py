"""Removal of a controller's registration; `handlers/test_controller_registration.py` has the registration."""

import pytest

from tests.quorum.metadata.build import features, image_of, uid
from trimaran.node.replicated.state_machine import Result
from trimaran.quorum.controller.nodes.controllers import unregister_controller
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.unregister_controller import UnregisterControllerResponse
from trimaran.wire.records.brokers import RegisterControllerRecord, UnregisterControllerRecord

REGISTERED = RegisterControllerRecord(
    controller_id=NodeId(3),
    incarnation_id=uid(3),
    zk_migration_ready=False,
    end_points=[],
    features=[],
)


def test_registered_controller_is_removed_by_one_record():
    result = unregister_controller(NodeId(3), image_of(features(33), REGISTERED), NodeId(1))
    assert result == Result(
        [UnregisterControllerRecord(controller_id=NodeId(3))],
        UnregisterControllerResponse(error_message=None),
    )


@pytest.mark.parametrize(
    ("level", "controller_id", "code"),
    [
        (33, 4, ErrorCode.CONTROLLER_ID_NOT_REGISTERED),
        (32, 3, ErrorCode.UNSUPPORTED_VERSION),
        (32, 4, ErrorCode.UNSUPPORTED_VERSION),
        (33, 1, ErrorCode.INVALID_REQUEST),
        (32, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_active_or_unknown_controller_is_not_unregistered(level, controller_id, code):
    with pytest.raises(KafkaError) as refused:
        unregister_controller(
            NodeId(controller_id), image_of(features(level), REGISTERED), NodeId(1)
        )
    assert refused.value.code == code

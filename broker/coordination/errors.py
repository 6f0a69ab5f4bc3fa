"""What clients of a coordinator are told of failures of the log behind it.

Source: `CoordinatorOperationExceptionHelper` of Kafka 4.3.
"""

from __future__ import annotations

from trimaran.wire.errors import ErrorCode

E = ErrorCode

_RESPONSE_CODES = {
    E.NETWORK_EXCEPTION: E.COORDINATOR_LOAD_IN_PROGRESS,
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.INVALID_FETCH_SIZE: E.UNKNOWN_SERVER_ERROR,
}


def response_code(code: ErrorCode) -> ErrorCode:
    """The code for clients."""
    return _RESPONSE_CODES.get(code, code)

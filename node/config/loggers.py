"""The levels of a node's loggers as configs: resources of type BROKER_LOGGER, which belong to one process and are never
in the metadata log.

Source: Kafka's `RuntimeLoggerManager`, `LoggingController`, KIP-412. FATAL and TRACE, which Python does not have,
become CRITICAL and DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import IntEnum

from trimaran.node import events
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.identity import NodeId
from trimaran.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource

log = logging.getLogger(__name__)

ROOT = "root"
_LEVELS = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG,
    "WARN": logging.WARNING,
}
_NAMES = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
}


class ConfigOperation(IntEnum):
    """The operation that a config change applies to the present value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def logger_levels() -> dict[str, str]:
    """Returns the effective level of each logger, the root first."""
    names = sorted(
        name
        for name, found in logging.root.manager.loggerDict.items()
        if isinstance(found, logging.Logger)
    )
    levels = {ROOT: _name(logging.root.level)}
    return levels | {name: _name(logging.getLogger(name).getEffectiveLevel()) for name in names}


def alter_loggers(resource: AlterConfigsResource, node_id: NodeId, *, validate_only: bool) -> None:
    """Sets levels in this process, all or none.

    Raises:
        KafkaError: INVALID_REQUEST or INVALID_CONFIG; the message gives the reason.
    """
    _check_node(resource.resource_name, node_id)
    known = logger_levels()
    for change in resource.configs:
        _check(change, known)
    if not validate_only:
        _apply(resource.configs)


def _check_node(name: str, node_id: NodeId) -> None:
    try:
        number = int(name)
    except ValueError:
        message = f"Node id must be an integer, but it is: {name}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    if number != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected node id. Expected {node_id}, but received {number}",
        )


def _check(change: AlterableConfig, known: dict[str, str]) -> None:
    name, operation = change.name, change.config_operation
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{ConfigOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource",
        )
    if name not in known:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == ConfigOperation.SET and change.value not in _LEVELS:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(_LEVELS)}",
        )
    if operation == ConfigOperation.DELETE and name == ROOT:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        )


def _apply(changes: Iterable[AlterableConfig]) -> None:
    for change in changes:
        logger = logging.root if change.name == ROOT else logging.getLogger(change.name)
        if change.config_operation == ConfigOperation.SET:
            logger.setLevel(_LEVELS[change.value or ""])
        else:
            logger.setLevel(logging.NOTSET)
        level = _name(logger.getEffectiveLevel())
        events.LOG_LEVEL_CHANGED.log(log, logger_name=change.name, level=level)


def _name(level: int) -> str:
    return _NAMES.get(level, logging.getLevelName(level))

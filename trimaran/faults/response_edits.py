"""Changes of decoded messages: fields, leaders, addresses, checksums. Each changes the message in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from trimaran.faults.actions import LeaderFault
from trimaran.faults.conditions import check_path
from trimaran.faults.places import Roles
from trimaran.faults.plan_error import PlanError
from trimaran.wire.buffers.primitives import uuid_from_text
from trimaran.wire.codec.declarations import Struct
from trimaran.wire.codec.plan import Shape
from trimaran.wire.errors import ErrorCode
from trimaran.wire.identity import Address
from trimaran.wire.schema import Message

# The leaders that the first Metadata response showed, by topic and partition, each with its epoch.
FirstLeaders = MutableMapping[tuple[Any, int], tuple[int, int]]
# The partitions whose first leaders are remembered.
FIRST_LEADERS_MAX = 100_000
# The Python types of wire types other than integers.
_KINDS: Mapping[str, type] = {
    "boolean": bool,
    "string": str,
    "bool": bool,
    "bytes": bytes,
    "records": bytes,
    "uuid": bytes,
    "float64": float,
}
# The checksum of a batch (magic 2) is at this position.
_CRC_POSITION = 17
_BATCH_HEADER_BYTES = 61


def change_field(message: Message, path: str, value: Any) -> None:
    """Sets the fields at a path that `check_path` accepts; text means bytes or an id if the field has that type."""
    shape = check_path(type(message), path, "change")
    _set(message, path, fitting_value(shape, value))


def fitting_value(shape: Shape, value: Any) -> Any:
    """Returns a value for a field: text becomes an id or bytes if the field has that type.

    Raises:
        PlanError: the value does not fit, or the field has no simple type.
    """
    if shape.wire is None:
        raise PlanError(
            "only fields with simple values can be changed", "name a field in it", key="change"
        )
    kind = _KINDS.get(shape.wire.name, int)
    if value is None or (isinstance(value, kind) and not (kind is int and isinstance(value, bool))):
        return value
    if isinstance(value, str) and kind is bytes:
        try:
            return uuid_from_text(value) if shape.wire.name == "uuid" else value.encode()
        except ValueError as error:
            raise PlanError(
                f"{value!r} is no id: {error}", "write Kafka's text of an id", key="change"
            ) from None
    raise PlanError(
        f"{value!r} is no {shape.wire.name}",
        f"write a value of type {shape.wire.name}",
        key="change",
    )


def _set(struct: Any, path: str, value: Any) -> None:
    name, _, rest = path.partition(".")
    if not rest:
        setattr(struct, name, value)
        return
    inner = getattr(struct, name)
    for element in inner if isinstance(inner, list) else [inner]:
        if isinstance(element, Struct):
            _set(element, rest, value)


def remember_leaders(response: Any, first: FirstLeaders) -> None:
    """Keeps the leaders of partitions that were not seen before."""
    for topic in response.topics:
        for partition in topic.partitions:
            if len(first) < FIRST_LEADERS_MAX and partition.leader_id >= 0:
                key = (topic.name or topic.topic_id, partition.partition_index)
                first.setdefault(key, (partition.leader_id, partition.leader_epoch))


def show_leaders(
    response: Any, fault: LeaderFault, first: FirstLeaders, is_chosen: Callable[[Roles], bool]
) -> None:
    """Replaces the leaders of the chosen partitions of a Metadata response."""
    ids = sorted(broker.node_id for broker in response.brokers)
    for topic in response.topics:
        for partition in topic.partitions:
            if is_chosen({"topic": topic.name, "partition": partition.partition_index}):
                key = (topic.name or topic.topic_id, partition.partition_index)
                _show_leader(partition, fault, ids, first.get(key))


def _show_leader(
    partition: Any, fault: LeaderFault, ids: list[int], first: tuple[int, int] | None
) -> None:
    if fault is LeaderFault.STALE:
        if first is not None:
            partition.leader_id, partition.leader_epoch = first
    elif fault is LeaderFault.NONE:
        partition.leader_id = -1
        partition.error_code = int(ErrorCode.LEADER_NOT_AVAILABLE)
    else:
        others = [broker for broker in ids if broker != partition.leader_id]
        later = [broker for broker in others if broker > partition.leader_id]
        # The only broker is replaced by one that does not exist.
        partition.leader_id = (later or others or [partition.leader_id + 1])[0]


def advertise(response: Any, address: Address) -> None:
    """Shows one address for every broker in a response of Metadata, FindCoordinator or DescribeCluster."""
    for array in ("brokers", "coordinators"):
        for broker in getattr(response, array, ()):
            broker.host, broker.port = address
    if getattr(response, "host", ""):
        response.host, response.port = address


def corrupt_records(message: Any, is_chosen: Callable[[Roles], bool]) -> None:
    """Inverts a bit in the checksum of the first batch of the chosen partitions of Produce, Fetch or ShareFetch."""
    is_request = hasattr(message, "topic_data")
    for topic in message.topic_data if is_request else message.responses:
        name = getattr(topic, "name" if is_request else "topic", "")
        for partition in topic.partition_data if is_request else topic.partitions:
            index = partition.index if is_request else partition.partition_index
            if is_chosen({"topic": name, "topic_id": topic.topic_id, "partition": index}):
                partition.records = _corrupted(partition.records)


def _corrupted(records: Any) -> Any:
    if records is None or len(records) < _BATCH_HEADER_BYTES:
        return records
    changed = bytearray(records)
    changed[_CRC_POSITION] ^= 1
    return bytes(changed)

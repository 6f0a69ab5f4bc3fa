"""Decides AlterClientQuotas requests. Throttling is implemented elsewhere.

Source: Kafka's `ClientQuotaControlManager`, `QuotaConfig`, KIP-546, KIP-612.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Mapping

from trimaran.node.replicated.state_machine import Result
from trimaran.node.runtime.steps import Steps
from trimaran.quorum.controller.partitions.topics import RECORDS_MAX
from trimaran.quorum.metadata.describe_client_quotas import CLIENT_ID, IP, USER
from trimaran.quorum.metadata.image import QuotaEntity, QuotasImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from trimaran.wire.records import quotas as records_of
from trimaran.wire.schema import Message

# The largest whole number allowed; None if fractions are allowed.
_OF_CLIENTS = {
    "producer_byte_rate": (1 << 63) - 1,
    "consumer_byte_rate": (1 << 63) - 1,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_IPS = {"connection_creation_rate": (1 << 31) - 1}
_TYPE_NAMES = {(1 << 63) - 1: "a LONG", (1 << 31) - 1: "an INT"}
_HOST_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?\.?")


def fail_alter_quotas(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str
) -> AlterClientQuotasResponse:
    """Returns the response for a request that could not be decided at all."""
    error = KafkaError(code, message)
    return AlterClientQuotasResponse(
        entries=[_response(entry.entity, error) for entry in request.entries]
    )


def alter_client_quotas(
    request: AlterClientQuotasRequest, quotas: QuotasImage
) -> Steps[Result[Message, AlterClientQuotasResponse]]:
    """Changes each entity completely or not at all; values that are already set are not written again.

    Raises:
        KafkaError: POLICY_VIOLATION if the request is too large; nothing is changed.
    """
    records: list[Message] = []
    responses: dict[QuotaEntity, AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        key = _key(entry.entity)
        try:
            if key in responses:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {_text(entry.entity)}"
                )
            records += _alter(entry, key, quotas)
            responses[key] = _response(entry.entity, None)
        except KafkaError as error:
            responses[key] = _response(entry.entity, error)
        yield 1
    if len(records) > RECORDS_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
        )
    response = AlterClientQuotasResponse(entries=list(responses.values()))
    return Result([] if request.validate_only else records, response)


def _alter(
    entry: AlterClientQuotasRequestEntryData, key: QuotaEntity, quotas: QuotasImage
) -> list[Message]:
    names = [op.key for op in entry.ops]
    if len(set(names)) != len(names):
        raise _invalid(f"Ignoring duplicate entity {_text(entry.entity)}")
    allowed = _check_entity(entry.entity)
    changes: list[Message] = []
    for op in entry.ops:
        present = quotas.get((key, op.key))
        if op.remove:
            if present is not None:
                changes.append(_record(entry.entity, op.key, 0.0, remove=True))
            continue
        _check_value(allowed, op.key, op.value)
        if present is None or not _is_same(present.value, op.value):
            changes.append(_record(entry.entity, op.key, op.value))
    return changes


def _is_same(one: float, other: float) -> bool:
    """Returns whether two numbers are equal as in Java's Double.equals, where NaN equals NaN."""
    return one == other or (math.isnan(one) and math.isnan(other))


def _check_entity(entity: list[EntityData]) -> Mapping[str, int | None]:
    """Returns the quotas that the entity may have; raises KafkaError for an invalid entity."""
    names: dict[str, str | None] = {}
    for part in entity:
        kind, name = part.entity_type, part.entity_name
        if kind in names:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        names[kind] = name
    if not names:
        raise _invalid("Invalid empty client quota entity")
    if IP not in names:
        return _OF_CLIENTS
    if len(names) > 1:
        # Kafka's message lacks the space too.
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    if not _is_host(names[IP]):
        raise _invalid(f"{names[IP]} is not a valid IP or resolvable host.")
    return _OF_IPS


def _is_host(name: str | None) -> bool:
    """Returns whether the text is an address or a valid host name; None is the default entity. The controller does not
    query DNS during a decision.
    """
    if name is None:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        looks_like_ipv4 = re.fullmatch(r"[0-9.]+", name) is not None
        return not looks_like_ipv4 and _HOST_NAME.fullmatch(name) is not None
    return True


def _check_value(allowed: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in allowed:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0:  # as in Kafka, NaN is stored and does not throttle
        raise _invalid(f"Quota {key} must be greater than 0")
    largest = allowed[key]
    if largest is None:
        return
    if value > float(largest):
        raise _invalid(f"Proposed value for {key} is too large for {_TYPE_NAMES[largest]}.")
    if math.fmod(value, 1.0) > 1e-6:
        raise _invalid(f"{key} cannot be a fractional value.")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _key(entity: list[EntityData]) -> QuotaEntity:
    return tuple(sorted(((e.entity_type, e.entity_name) for e in entity), key=lambda part: part[0]))


def _text(entity: list[EntityData]) -> str:
    parts = ", ".join(f"{part.entity_type}={part.entity_name or 'null'}" for part in entity)
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _record(
    entity: list[EntityData], key: str, value: float, *, remove: bool = False
) -> records_of.ClientQuotaRecord:
    return records_of.ClientQuotaRecord(
        entity=[
            records_of.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entity
        ],
        key=key,
        value=value,
        remove=remove,
    )


def _response(
    entity: list[EntityData], error: KafkaError | None
) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        entity=sorted(entity, key=lambda part: part.entity_type),  # client-id first, as in Kafka
    )

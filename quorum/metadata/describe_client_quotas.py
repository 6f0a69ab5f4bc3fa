"""DescribeClientQuotas (48): quotas by a filter over entities. Source: Kafka's `ClientQuotasImage`, KIP-546."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from trimaran.quorum.metadata.image import QuotaEntity, QuotasImage
from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    EntryData,
    ValueData,
)
from trimaran.wire.text.java_order import java_hash_order

USER, CLIENT_ID, IP = "user", "client-id", "ip"
# The match type of a component: the named entity, the default entity of the type, any entity of the type.
EXACT, DEFAULT, ANY = 0, 1, 2


@dataclass(slots=True)
class _Filter:
    """A parsed filter. `names` must be equal (None: the default entity), `any_name` types must be present; `strict`
    allows no other types.
    """

    strict: bool
    names: dict[str, str | None] = field(default_factory=dict)
    any_name: set[str] = field(default_factory=set)

    @property
    def types(self) -> set[str]:
        return self.names.keys() | self.any_name

    def matches(self, entity: Mapping[str, str | None]) -> bool:
        if self.strict and entity.keys() != self.types:
            return False
        return self.types <= entity.keys() and all(
            entity[kind] == name for kind, name in self.names.items()
        )


def describe_client_quotas(
    request: DescribeClientQuotasRequest, quotas: QuotasImage
) -> Iterator[EntryData]:
    """Yields the matching entities with all their quotas, in a fixed order; entities with one component come first.

    Raises:
        KafkaError: INVALID_REQUEST or UNSUPPORTED_VERSION for an invalid filter; the message gives the reason.
    """
    wanted = _filter(request)
    values: dict[QuotaEntity, list[ValueData]] = {}
    for (entity, key), record in quotas.items():
        if wanted.matches(dict(entity)):
            values.setdefault(entity, []).append(ValueData(key=key, value=record.value))
    return (
        EntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            values=_in_order_of_kafka(found),
        )
        for entity, found in sorted(values.items(), key=lambda item: _order(item[0]))
    )


def _order(entity: QuotaEntity) -> tuple[int, list[tuple[str, bool, str]]]:
    """Orders by the number of components, then by their types and names, the default entity last."""
    return len(entity), [(kind, name is None, name or "") for kind, name in entity]


def _in_order_of_kafka(values: Iterable[ValueData]) -> list[ValueData]:
    """Returns an entity's quotas in the order of Kafka's response, which client tests compare: the order of a `HashMap`
    that grows from one bucket, filled in the order of a `HashMap` of default capacity.
    """
    by_key = {value.key: value for value in values}
    order = java_hash_order(java_hash_order(sorted(by_key)), least_buckets=1)
    return [by_key[key] for key in order]


def _filter(request: DescribeClientQuotasRequest) -> _Filter:
    wanted = _Filter(request.strict)
    for component in request.components:
        _add(wanted, component)
    if IP in wanted.types and wanted.types & {USER, CLIENT_ID}:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component.",
        )
    return wanted


def _add(wanted: _Filter, component: ComponentData) -> None:
    kind, how, name = component.entity_type, component.match_type, component.match
    if not kind:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Invalid empty entity type.")
    if kind in wanted.types:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Entity type {kind} cannot appear more than once in the filter.",
        )
    if kind not in (USER, CLIENT_ID, IP):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    match how:
        case 0:
            if name is None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "Request specified MATCH_TYPE_EXACT, but set match string to null.",
                )
            wanted.names[kind] = name
        case 1:
            _check_no_name(name, "MATCH_TYPE_DEFAULT")
            wanted.names[kind] = None
        case 2:
            _check_no_name(name, "MATCH_TYPE_SPECIFIED")
            wanted.any_name.add(kind)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown match type {how}")


def _check_no_name(name: str | None, how: str) -> None:
    if name is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"Request specified {how}, but also specified a match string.",
        )

"""A request of every API and version, with two items."""

from trimaran.faults.places import (
    ELEMENT,
    POSITION,
    add_errors,
    element_of,
    read_items,
    zero_struct,
)
from trimaran.wire.codec.plan import shape_of
from trimaran.wire.messages.registry import REQUESTS, RESPONSES, ApiKey


def versions():
    return [
        (api, version)
        for api in ApiKey
        for version in range(RESPONSES[api].VERSIONS.low, RESPONSES[api].VERSIONS.high + 1)
    ]


def sample(api, version, place):
    """Returns a request with two items, and these items."""
    request = zero_struct(REQUESTS[api])
    for number in (1, 2):
        parent = request
        for level in place.request:
            cls = element_of(type(parent), level.array)
            elements = getattr(parent, level.array)
            if elements is None:
                setattr(parent, level.array, elements := [])
            element = number if cls is None else zero_struct(cls)
            for role, field in level.fields:
                if field == ELEMENT:
                    shape = shape_of(
                        next(f.annotation for f in type(parent).__fields__ if f.name == level.array)
                    )[0]
                    element = number if shape.item.wire.fmt else f"{role}-{number}"
                elif field != POSITION:
                    declared = next(f for f in cls.__fields__ if f.name == field)
                    if version in declared.versions:
                        setattr(element, field, value_of(declared, role, number))
            elements.append(element)
            parent = element
    return request, [*read_items(request, place.request)]


def value_of(field, role, number):
    shape = shape_of(field.annotation)[0]
    if shape.item is not None:
        return []
    return {"string": f"{role}-{number}", "uuid": bytes([number] * 16)}.get(shape.wire.name, number)


def leaf_of(cls, levels):
    """Returns the struct of the last level."""
    for level in levels:
        cls = element_of(cls, level.array)
        assert cls is not None, f"{level.array} has no structs"
    return cls


def error_of_items(place, api, items, code):
    """Returns a response with an error code in each of these items."""
    response = zero_struct(RESPONSES[api])
    add_errors(response, place, items, code)
    return response

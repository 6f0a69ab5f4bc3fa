"""The places of error codes in responses of every API and version."""

from tests.checks import check_each
from tests.trimaran.faults.samples import error_of_items, leaf_of, sample, versions
from trimaran.faults.places import (
    ANY,
    ItemPlace,
    add_errors,
    error_field,
    has_top_error,
    items_of,
    places_of,
    rewrite_errors,
    set_error,
    top_error,
    without_items,
    zero_struct,
)
from trimaran.wire.codec.plan import shape_of
from trimaran.wire.errors import ErrorCode
from trimaran.wire.messages.fetch import FetchRequest
from trimaran.wire.messages.metadata import MetadataRequest
from trimaran.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from trimaran.wire.messages.registry import RESPONSES, ApiKey

# Further error codes of an item, which rules reach by `change`.
OTHER_CODES = {
    "ShareFetchResponse.responses.partitions.acknowledge_error_code",
    "CreateTopicsResponse.topics.topic_config_error_code",
    # An element of the list of deleted ACLs, not of the request.
    "DeleteAclsResponse.filter_results.matching_acls.error_code",
}
CODES = [code for code in ErrorCode if code is not ErrorCode.NONE]


def codes_for(api, version):
    """Returns every code for the newest version, and one for the others: the code itself makes no difference there."""
    return CODES if version == RESPONSES[api].VERSIONS.high else CODES[:1]


def error_codes_in(cls, path):
    for field in cls.__fields__:
        shape = shape_of(field.annotation)[0]
        while shape.item is not None:
            shape = shape.item
        if shape.struct is not None:
            yield from error_codes_in(shape.struct, f"{path}.{field.name}")
        elif field.name.endswith("error_code"):
            yield f"{path}.{field.name}"


def test_every_version_has_a_place_for_errors():
    def check(pair):
        assert has_top_error(*pair) or places_of(*pair)

    check_each(versions(), check)


def test_every_error_code_of_schemas_has_a_place():
    placed = set()
    for api, version in versions():
        response = RESPONSES[api]
        if has_top_error(api, version):
            placed.add(f"{response.__name__}.{error_field(response).name}")
        for place in places_of(api, version):
            path = ".".join(level.array for level in place.response)
            field = error_field(leaf_of(response, place.response))
            placed.add(f"{response.__name__}.{path}.{field.name}")
    declared = {
        path for api in ApiKey for path in error_codes_in(RESPONSES[api], RESPONSES[api].__name__)
    }
    assert declared - placed == OTHER_CODES
    assert placed <= declared


def test_each_code_is_read_back_from_its_items():
    def check(pair):
        api, version = pair
        for place in places_of(api, version):
            if place.needs_response:
                continue
            request, items = sample(api, version, place)
            assert len(items) == 2
            for code in codes_for(api, version):
                encoded = error_of_items(place, api, items, code).encode(version)
                assert found_in(place, api, version, encoded) == projected(place, items, code)
            assert request.encode(version)

    check_each([p for p in versions() if places_of(*p)], check)


def found_in(place, api, version, encoded):
    decoded = RESPONSES[api].decode(encoded, version)
    return sorted(codes_of(decoded, place.response, ()))


def codes_of(struct, levels, outer):
    for position, element in enumerate(getattr(struct, levels[0].array)):
        roles = (*outer, *(str(v) for v in levels[0].roles_of(element, position).values()))
        if levels[1:]:
            yield from codes_of(element, levels[1:], roles)
        else:
            yield (*roles, getattr(element, error_field(type(element)).name))


def projected(place: ItemPlace, items, code):
    """Returns what a client must find: each item by its roles, and the code."""
    absent = {"topic_id": bytes(16), "topic": ""}
    return sorted(
        {
            (
                *(
                    str(item.get(role, absent.get(role)))
                    for level in place.response
                    for role, _ in level.fields
                ),
                code,
            )
            for item in items
        }
    )


def test_each_code_is_read_back_from_the_top():
    def check(pair):
        api, version = pair
        for code in codes_for(api, version):
            decoded = RESPONSES[api].decode(top_error(api, code).encode(version), version)
            assert getattr(decoded, error_field(RESPONSES[api]).name) == code

    check_each([p for p in versions() if has_top_error(*p)], check)


def commit(*pairs):
    topics = {}
    for topic, partition in pairs:
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition, committed_offset=1, committed_metadata=None
            )
        )
    return OffsetCommitRequest(
        group_id="g",
        topics=[OffsetCommitRequestTopic(name=name, partitions=ps) for name, ps in topics.items()],
    )


def pairs_of(items):
    return [(item["topic"], item["partition"]) for item in items]


def test_removed_items_leave_the_others():
    request = commit(("a", 0), ("a", 1), ("b", 0))
    rest = without_items(request, 8, lambda item: item["topic"] == "b" or item["partition"] == 1)
    assert pairs_of(items_of(rest, 8)) == [("a", 0)]
    assert [topic.name for topic in rest.topics] == ["a"]
    assert pairs_of(items_of(request, 8)) == [("a", 0), ("a", 1), ("b", 0)]
    assert without_items(request, 8, lambda _item: True) is None


def test_errors_are_added_beside_answers_of_the_broker():
    api, version = ApiKey.OFFSET_COMMIT, 8
    (place,) = places_of(api, version)
    response = error_of_items(
        place, api, items_of(commit(("a", 0)), version), ErrorCode.UNKNOWN_MEMBER_ID
    )
    add_errors(response, place, items_of(commit(("b", 1)), version), ErrorCode.NOT_COORDINATOR)
    decoded = RESPONSES[api].decode(response.encode(version), version)
    assert [
        (t.name, [(p.partition_index, p.error_code) for p in t.partitions]) for t in decoded.topics
    ] == [
        ("a", [(0, 25)]),
        ("b", [(1, 16)]),
    ]


def test_errors_replace_results_of_chosen_items():
    api, version = ApiKey.OFFSET_COMMIT, 8
    (place,) = places_of(api, version)
    items = items_of(commit(("a", 0), ("a", 1)), version)
    response = error_of_items(place, api, items, ErrorCode.NOT_COORDINATOR)
    count = rewrite_errors(
        response, place, lambda item: item["partition"] == 1, ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert count == 1
    assert [p.error_code for p in response.topics[0].partitions] == [16, 25]


def test_null_array_names_any_item():
    (item,) = items_of(MetadataRequest(topics=None), 12)
    assert item["topic"] is ANY
    assert repr(item["topic"]) == "ANY"
    assert without_items(MetadataRequest(topics=None), 12, lambda _item: True) is not None
    assert items_of(FetchRequest(max_wait_ms=1, min_bytes=1, topics=[]), 4) == []


def test_values_beside_an_error_are_those_of_kafka():
    element = zero_struct(leaf_of(RESPONSES[ApiKey.PRODUCE], places_of(0, 8)[0].response))
    set_error(element, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert (element.error_code, element.base_offset) == (6, -1)

"""The parts of two responses that must be equal: error codes, listed items, and authorized operations."""

from trimaran.wire.codec.declarations import Struct
from trimaran.wire.messages.share_fetch import ShareFetchResponse

TOLD = {
    "cluster_authorized_operations",
    "error_code",
    "group_id",
    "host",
    "index",
    "key",
    "name",
    "operation",
    "owner",
    "partition",
    "partition_error_code",
    "partition_id",
    "partition_index",
    "pattern_type",
    "permission_type",
    "principal",
    "principal_name",
    "resource_name",
    "resource_type",
    "topic",
    "topic_authorized_operations",
    "authorized_operations",
    "topic_config_error_code",
    "topic_name",
    "transactional_id",
    "user",
}
# The fields that may name an item; the first one that the item has is used.
NAMES = (
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "user",
    "resource_name",
    "key",
)
TEXTS = {"error_message", "topic_error_message"}
# Only their presence is compared, because their content is unrelated to access.
COUNTED = {"active_producers", "configs", "values"}
# These depend on the node, not on the client.
LEFT_OUT = {
    "aborted_transactions",
    "brokers",
    "controllers",
    "current_leader",
    "entity",
    "node_endpoints",
    "nodes",
}


def comparable(answer, names):
    """Returns the response as nested tuples, with sorted lists; `names` maps topic ids to names."""
    if answer is None:
        return "closed"
    return _of_struct(answer, names)


def _of_struct(struct, names):
    found = []
    for field in struct.__fields__:
        value = getattr(struct, field.name)
        if field.name == "responses" and isinstance(struct, ShareFetchResponse):
            value = [topic for topic in value if any(map(_is_news, topic.partitions))]
        if field.name == "topic_id":
            found.append((field.name, names.get(value, "made anew")))
        elif field.name == "entries" and value is None:
            found.append((field.name, ()))
        elif field.name in COUNTED:
            found.append((field.name, bool(value)))
        elif field.name in TOLD:
            found.append((field.name, value))
        elif field.name not in LEFT_OUT and isinstance(value, (list, tuple)):
            items = [_of_struct(item, names) for item in value if isinstance(item, Struct)]
            found.append((field.name, tuple(sorted(items, key=repr))))
    return tuple(found)


def _is_news(partition):
    """Whether the result can be compared: without an error or records it depends on whether the state is loaded, which
    takes time on both nodes, and may fail with -1.
    """
    return bool(
        partition.error_code > 0 or partition.acknowledge_error_code or partition.acquired_records
    )


def orders(answer, path=()):
    """Returns the names in each list of named items, by path, in the order of the response."""
    if answer is None:
        return
    for field in answer.__fields__:
        value = getattr(answer, field.name)
        if field.name in LEFT_OUT or not isinstance(value, (list, tuple)):
            continue
        items = [item for item in value if isinstance(item, Struct)]
        names = [_name_of(item) for item in items]
        if len(set(names)) > 1 and None not in names:
            yield (*path, field.name), tuple(names)
        for item, name in zip(items, names, strict=True):
            yield from orders(item, (*path, field.name, name))


def texts(answer, path=()):
    """Returns the error messages of a response, by path."""
    if answer is None:
        return
    for field in answer.__fields__:
        value = getattr(answer, field.name)
        if field.name in TEXTS:
            yield (*path, field.name), value
        elif field.name not in LEFT_OUT and isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, Struct):
                    yield from texts(item, (*path, field.name, _name_of(item)))


def _name_of(item):
    fields = {field.name for field in item.__fields__}
    return next((getattr(item, name) for name in NAMES if name in fields), None)


def differences(left, right, path=()):
    """Yields the differences of two comparable responses: the path, and both values."""
    if left == right:
        return
    if isinstance(left, str) or isinstance(right, str) or len(left) != len(right):
        yield path, left, right
        return
    for (name, item), (_, other) in zip(left, right, strict=True):
        if item == other:
            continue
        if isinstance(item, tuple) and isinstance(other, tuple) and len(item) == len(other):
            for number, (a, b) in enumerate(zip(item, other, strict=True)):
                yield from differences(a, b, (*path, f"{name}[{number}]"))
        else:
            yield (*path, name), item, other

"""`configs list|get|set|delete`: configs of a resource, which is written as TYPE/NAME: topic/orders, broker/11,
group/readers.

`broker` without a name means the configs of all brokers that do not have their own value.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import Parameter

from trimaran.cli import groups, kafka_text, names
from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import KafkaFormat, say, show_rows
from trimaran.client import config_changes, configs
from trimaran.client.changes import APPEND, DELETE, SET, SUBTRACT, Change, alter_configs
from trimaran.errors import refused
from trimaran.errors.similar import did_you_mean
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.config import dynamic_keys
from trimaran.quorum.metadata import image
from trimaran.wire.identity import NodeId

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from trimaran.wire.blocking import BlockingClient

COLUMNS = ("name", "value", "source", "read_only")


class Resource(NamedTuple):
    """A resource with configs. `type` is Kafka's number; `node` is the node that serves its configs, None for any
    broker.
    """

    type: int
    name: str
    node: NodeId | None

    @property
    def kind(self) -> str:
        """Returns the name of the type, such as `topic`."""
        return image.RESOURCE_TYPES[self.type].lower().replace("_", "-")

    @property
    def text(self) -> str:
        """Returns the words of the command line: `topic/orders`, or `broker` for all brokers."""
        return f"{self.kind}/{self.name}" if self.name else self.kind


def parse_resource(text: str) -> Resource:
    """Parses a resource such as `topic/orders`. Raises:
    UserError: there is no such type, or the name does not match the type.
    """
    types = _types()
    word, _, name = text.partition("/")
    number = types.get(word.lower())
    of_node = number in (image.BROKER_RESOURCE, image.BROKER_LOGGER_RESOURCE)
    needs_name = number != image.BROKER_RESOURCE
    is_wrong = (of_node and name and not name.isdecimal()) or (needs_name and not name)
    if number is None or is_wrong:
        similar = did_you_mean(word.lower(), types) if number is None else None
        raise UserError(
            f"{text!r} is not a resource with configs",
            similar or f"it is written TYPE/NAME, and TYPE is one of {', '.join(types)}",
            "write topic/orders, group/readers, client-metrics/m, broker/11, or broker for all brokers",
            exit_code=Exit.USAGE,
        )
    return Resource(number, name, NodeId(name) if of_node and name else None)


def _types() -> dict[str, int]:
    return {name.lower().replace("_", "-"): number for number, name in image.RESOURCE_TYPES.items()}


def list_resources(
    kind: str | None = None,
    /,
    *,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> None:
    """Lists the resources that have configs, for example all client-metrics subscriptions.

    With -o kafka, only their names are listed, as kafka-client-metrics lists them.

    Args:
        kind: Only this type: topic, broker, group, client-metrics, broker-logger.
    """
    types = _types()
    if kind is not None and kind.lower() not in types:
        raise UserError(
            f"{kind!r} is not a type of resources with configs",
            did_you_mean(kind.lower(), types) or f"the types are {', '.join(types)}",
            "for example trimaran configs list client-metrics",
            exit_code=Exit.USAGE,
        )
    with brokers.connected() as client:
        found = configs.resource_rows(
            client, list(types.values()) if kind is None else [types[kind.lower()]]
        )
    names = {number: name for name, number in types.items()}
    rows = [{**row, "type": names[row["type"]]} for row in found]
    show_rows(
        rows,
        output,
        columns=("type", "name"),
        noun="resource",
        kafka=lambda: "\n".join(str(row["name"]) for row in rows),
    )


def get(
    resource: str,
    *keys: str,
    every: Annotated[bool, Parameter(name=["-a", "--all"])] = False,
    brokers: Brokers = BROKERS,
    output: KafkaFormat = "table",
) -> int:
    """Shows the configs that were set for a resource; with --all also the defaults. Exit code 1 if it does not have one
    of the named configs.

    Args:
        resource: TYPE/NAME: topic/orders, group/readers, client-metrics/m, broker/11, broker-logger/11; or broker for
            all brokers.
        keys: Only these configs; each may be a pattern, such as 'retention.*'.
        every: Also show configs that have their default.
    """
    wanted = parse_resource(resource)
    with brokers.connected() as client:
        _learn_node(client, wanted)
        rows = configs.config_rows(client, wanted.type, wanted.name, wanted.node)
    known = {str(row["name"]) for row in rows}
    # The configs of all brokers are only those that were set.
    declared = [] if wanted.name else [key for key in keys if dynamic_keys.declared_key(key)]
    missing = _unknown(resource, names.expanded(keys, lambda: known), known.union(declared))
    rows = [row for row in rows if names.matches(str(row["name"]), keys)]
    if missing is not None and not rows:
        raise missing
    shown = [row for row in rows if every or keys or row["is_set"]]
    show_rows(
        shown,
        output,
        columns=COLUMNS,
        noun="config",
        kafka=lambda: kafka_text.configs(wanted.kind, wanted.name, rows, every=every),
    )
    return names.end(missing)


def set_configs(
    resource: str,
    *words: str,
    dry_run: DryRun = False,
    brokers: Brokers = BROKERS,
) -> None:
    """Sets configs: KEY=VALUE; in a list, KEY+=VALUE adds and KEY-=VALUE removes an entry.

    If one of several resources does not exist, none is changed.

    Args:
        resource: TYPE/NAME: topic/orders, group/readers, client-metrics/m, broker/11, broker-logger/11; or broker for
            all brokers. A topic or a group may be a pattern, such as 'topic/orders-*'.
        words: Further resources, then KEY=VALUE, such as retention.ms=86400000.
    """
    more = list(takewhile(_is_resource, words))
    changes = [parse_pair(pair) for pair in words[len(more) :]]
    wanted = [parse_resource(text) for text in (resource, *more)]
    if not changes:
        raise _nothing_named(resource)
    with brokers.connected() as client:
        resources = _expanded(client, wanted)
        if len(resources) > 1:  # none is changed if one of them is refused
            _, missing = names.each(
                resources, lambda each: _alter(client, each, changes, validate_only=True)
            )
            if missing is not None:
                raise missing
        for each in resources:
            _change(client, each, changes, dry_run=dry_run)


def _is_resource(word: str) -> bool:
    """Returns whether a word names a resource; names of configs have no slash."""
    return "/" in word.partition("=")[0] or word.lower() in _types()


def _expanded(client: BlockingClient, resources: Sequence[Resource]) -> list[Resource]:
    """Returns the resources without repetitions, with each pattern replaced by the topics or groups that match."""
    found: dict[Resource, None] = {}
    for each in resources:
        matching = [each.name]
        if each.type == image.TOPIC_RESOURCE:
            matching = names.expanded_topics(client, matching)
        elif each.type == image.GROUP_RESOURCE:
            matching = groups.expanded_groups(client, matching)
        found |= dict.fromkeys(each._replace(name=name) for name in matching)
    return list(found)


def _alter(
    client: BlockingClient, wanted: Resource, changes: Sequence[Change], *, validate_only: bool
) -> None:
    """Alters the configs of a resource. Raises UnknownName, KafkaError."""
    if wanted.type == image.GROUP_RESOURCE and refused.is_pattern(wanted.name):
        raise refused.no_group(wanted.name)
    _learn_node(client, wanted)
    alter_configs(
        client, wanted.type, wanted.name, changes, node=wanted.node, validate_only=validate_only
    )


def _change(
    client: BlockingClient, wanted: Resource, changes: Sequence[Change], *, dry_run: bool
) -> None:
    """Alters the configs of a resource, and prints which have changed."""
    _learn_node(client, wanted)
    same = config_changes.without_effect(client, wanted.type, wanted.name, changes, wanted.node)
    _alter(client, wanted, changes, validate_only=dry_run)
    if done := ", ".join(change[0] for change in changes if change not in same):
        say(f"{'would change' if dry_run else 'changed'} {wanted.text}: {done}")
    for key, operation, _ in same:
        say(f"{wanted.text}: {key} {'is not set' if operation == DELETE else 'is so already'}")
    _warn_of_undeclared(wanted, changes)


def delete(resource: str, *keys: str, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Resets configs to their defaults.

    Args:
        resource: TYPE/NAME: topic/orders, group/readers, client-metrics/m, broker/11, broker-logger/11; or broker for
            all brokers.
        keys: The configs to reset, such as retention.ms.
    """
    wanted = parse_resource(resource)
    if keys:
        with brokers.connected() as client:
            _learn_node(client, wanted)
            known = configs.config_rows(client, wanted.type, wanted.name, wanted.node)
        # A cluster accepts the deletion of any key, so a mistyped one would seem to be reset.
        missing = _unknown(resource, keys, {str(row["name"]) for row in known})
        if missing is not None:
            raise missing
    if not keys:
        raise _nothing_named(resource)
    changes = [(key, DELETE, None) for key in keys]
    with brokers.connected() as client:
        _change(client, wanted, changes, dry_run=dry_run)


def _unknown(resource: str, keys: Sequence[str], known: AbstractSet[str]) -> UserError | None:
    """Returns the error for the keys that a resource does not have, if there are any."""
    unknown = [key for key in keys if key not in known]
    if not unknown:
        return None
    question = did_you_mean(unknown[0], known) if len(unknown) == 1 else None
    return UserError(
        f"{resource} has no config {', '.join(unknown)}",
        question or "it was not set, and there is no default of that name",
        f"trimaran configs get {resource} --all shows all configs",
    )


def parse_pair(text: str) -> Change:
    """Parses KEY=VALUE, KEY+=VALUE or KEY-=VALUE; a value may contain further equals signs.

    Raises:
        UserError: the text is none of them.
    """
    key, equals, value = text.partition("=")
    operation = {"+": APPEND, "-": SUBTRACT}.get(key[-1:], SET)
    key = key if operation == SET else key[:-1]
    if not equals or not key:
        raise UserError(
            f"{text!r} is not a config to set",
            "a config is written KEY=VALUE",
            "for example trimaran configs set topic/orders retention.ms=1000",
            exit_code=Exit.USAGE,
        )
    return key, operation, value


def _nothing_named(resource: str) -> UserError:
    return UserError(
        "nothing to change",
        f"no config of {resource} was named",
        f"trimaran configs get {resource} --all shows all configs",
        exit_code=Exit.USAGE,
    )


def _warn_of_undeclared(wanted: Resource, changes: Sequence[Change]) -> None:
    """Warns about unknown keys: brokers keep them, so a mistyped name would seem to have an effect."""
    unknown = [name for name, operation, _ in changes if operation == SET]
    unknown = [name for name in unknown if dynamic_keys.declared_key(name) is None]
    if wanted.type == image.BROKER_RESOURCE and unknown:
        say(f"no config of brokers, kept for plug-ins: {', '.join(unknown)}")


def _learn_node(client: BlockingClient, resource: Resource) -> None:
    """Finds the node that serves a resource: for a broker it is the broker itself; a dead broker is reported at once,
    without a wait.
    """
    if resource.node is None:
        return
    client.refresh()
    refused.ensure_brokers_run([resource.node], client.routing.nodes)

"""`quotas list|set|delete`: the limits of clients. Works with Apache Kafka, too.

An entity is written as one or two words: `user=alice`, `client-id=etl`, both, or `ip=10.0.0.7`. A type without a name,
such as `user`, is the default for all entities without their own quota.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from trimaran.cli.connect import BROKERS, Brokers, DryRun
from trimaran.cli.output import Format, say, show_rows
from trimaran.client import quotas as client_quotas
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text.wording import entity_text

if TYPE_CHECKING:
    from collections.abc import Iterable

TYPES = ("user", "client-id", "ip")
COLUMNS = ("entity", "quota", "value")
# The names of an entity by type; None is the default entity of a type.
Entity = dict[str, str | None]
_WHO = "user=NAME, client-id=NAME or both, or ip=ADDRESS; without =NAME it is the default"
Words = Annotated[str, Parameter(help=f"{_WHO}.")]
WordsToSet = Annotated[str, Parameter(help=f"{_WHO}. Then KEY=NUMBER for each quota.")]
WordsToDelete = Annotated[str, Parameter(help=f"{_WHO}. Then the quotas, by default all.")]


def parse_words(words: Iterable[str]) -> tuple[Entity, list[str]]:
    """Returns the entity, and the words that are not part of it.

    Raises:
        UserError: a type is named twice.
    """
    entity: Entity = {}
    others: list[str] = []
    for word in words:
        kind, equals, name = word.partition("=")
        if kind not in TYPES:
            others.append(word)
            continue
        if kind in entity:
            raise _usage(f"{kind} is named twice", "a quota is for one user, client id or address")
        entity[kind] = name if equals else None
    return entity, others


def parse_value(word: str) -> tuple[str, float]:
    """Parses KEY=NUMBER. Raises: UserError: the text has another form."""
    key, _, text = word.partition("=")
    try:
        return key, float(text)
    except ValueError as error:
        raise _usage(f"{word!r} is not a quota", "a quota is written KEY=NUMBER") from error


def list_quotas(*words: Words, brokers: Brokers = BROKERS, output: Format = "table") -> int:
    """Lists all client quotas, or only the quotas of the named users, client ids or addresses."""
    entity, others = parse_words(words)
    if others:
        raise _no_owner(others[0])
    with brokers.connected() as client:
        found = client_quotas.quota_rows(client, entity)
    rows = [{**row, "value": _number(row["value"])} for row in found]
    show_rows(rows, output, columns=COLUMNS)
    return Exit.OK


def set_quotas(*words: WordsToSet, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Sets client quotas: KEY=NUMBER, such as producer_byte_rate=1048576. Other quotas of the same entity stay."""
    entity, others = parse_words(words)
    values = [parse_value(word) for word in others]
    if not entity:
        raise _no_owner(" ".join(words))
    if not values:
        raise _usage("nothing to set", f"no quota for {entity_text(entity)} was named")
    with brokers.connected() as client:
        same = client_quotas.quotas_that_are_set(client, entity, values)
        client_quotas.set_quotas(client, entity, values, validate_only=dry_run)
    verb = "would set" if dry_run else "set"
    for are_new, verb_of in ((True, verb), (False, "there is already")):
        told = ", ".join(
            f"{key}={_number(value)}" for key, value in values if (key not in same) == are_new
        )
        if told:
            say(f"{verb_of} {told} for {entity_text(entity)}")


def delete(*words: WordsToDelete, dry_run: DryRun = False, brokers: Brokers = BROKERS) -> None:
    """Deletes the named client quotas, such as producer_byte_rate, or all quotas of the entity."""
    entity, names = parse_words(words)
    if not entity:
        raise _no_owner(" ".join(words))
    with brokers.connected() as client:
        rows = client_quotas.quota_rows(client, entity, only_this=True)
        present = [row["quota"] for row in rows]
        missing = [name for name in names if name not in present]
        if missing or not present:
            raise UserError(
                "there is no such quota",
                f"{entity_text(entity)} has no {', '.join(missing) or 'quota'}",
                f"trimaran quotas list {entity_text(entity)} shows its quotas",
                exit_code=Exit.NO,
            )
        keys = names or present
        client_quotas.delete_quotas(client, entity, keys, validate_only=dry_run)
    say(f"{'would delete' if dry_run else 'deleted'} {', '.join(keys)} for {entity_text(entity)}")


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value


def _no_owner(text: str) -> UserError:
    return _usage(
        f"{text!r} does not say who the quota is for",
        f"write one of {', '.join(TYPES)}, with =NAME",
    )


def _usage(what: str, why: str) -> UserError:
    return UserError(
        what,
        why,
        "for example trimaran quotas set user=alice client-id=etl producer_byte_rate=1048576",
        exit_code=Exit.USAGE,
    )

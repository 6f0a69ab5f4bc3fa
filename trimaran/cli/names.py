"""Resolves names of topics, groups and other things that are arguments of commands. Each may be a pattern of shells,
such as 'orders-*'. A command shows those that exist, then one error names all that are missing.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Any, TypeVar

from trimaran.client import partitions
from trimaran.errors import refused
from trimaran.errors.user_error import Exit, UserError
from trimaran.node.text import wording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trimaran.wire.blocking import BlockingClient

Name = TypeVar("Name")
Found = TypeVar("Found")
# The prefix of all internal topics. As with hidden files in a shell, only a pattern with the prefix matches them.
_INTERNAL = "__"


def matches(name: str, words: Sequence[str]) -> bool:
    """Returns whether a name is one of the words, or matches one of them; every name does if there are no words."""
    return not words or any(name == word or fnmatch.fnmatchcase(name, word) for word in words)


def names_internal(name: str, words: Sequence[str]) -> bool:
    """Returns whether the words are for an internal topic: its name, or a pattern that begins like it."""
    return any(word.startswith(_INTERNAL) and matches(name, [word]) for word in words)


def several(words: Sequence[str]) -> bool:
    """Returns whether the words may be for any number of things, so that data for programs is a list."""
    return len(words) != 1 or refused.is_pattern(words[0])


def ensure_named(words: Sequence[object], kind: str, done: str, listed_by: str = "") -> None:
    """Raises UserError if there are no words. `done` is what a command does with them, such as `deleted`; `listed_by`
    is the noun of the command that lists them, by default the plural.
    """
    if not words:
        all_of_them = wording.plural_of(kind)
        raise UserError(
            f"no {kind} was named",
            f"{all_of_them} are {done} by name",
            f"name one or more; trimaran {listed_by or all_of_them} list shows all {all_of_them}",
            exit_code=Exit.USAGE,
        )


def expanded(words: Sequence[str], known: Callable[[], Iterable[str]]) -> list[str]:
    """Returns the words with each pattern replaced by the names that match it, without repetitions; a pattern that
    matches none stays. `known` lists all names, and is called only if there is a pattern.
    """
    if not any(map(refused.is_pattern, words)):
        return list(dict.fromkeys(words))
    names = sorted(known())
    found: dict[str, None] = {}
    for word in words:
        is_name = not refused.is_pattern(word) or word in names
        found |= dict.fromkeys(
            [word] if is_name else [name for name in names if matches(name, [word])] or [word]
        )
    return list(found)


def expanded_topics(client: BlockingClient, words: Sequence[str]) -> list[str]:
    """Returns `expanded` of topics."""

    def known() -> list[str]:
        return [
            topic.name or ""
            for topic in partitions.topics_of(client, None)
            if not topic.is_internal or names_internal(topic.name or "", words)
        ]

    return expanded(words, known)


def topics_named(
    client: BlockingClient, words: Sequence[str] | None
) -> tuple[Sequence[Any], refused.UnknownName | None]:
    """Returns the metadata of the named topics, or of all topics if none is named, and the error for those that do not
    exist.

    Raises:
        UnknownName: none of the topics exists.
        KafkaError: one of them is refused.
    """
    told = partitions.topics_of(client, expanded_topics(client, words) if words else None)
    return each(told, partitions.known_topic)


def each(
    names: Iterable[Name], ask: Callable[[Name], Found]
) -> tuple[list[Found], refused.UnknownName | None]:
    """Returns what `ask` returns for each name that exists, and the error for those that do not.

    Raises:
        UnknownName: none of the names exists.
    """
    found: list[Found] = []
    missing: list[refused.UnknownName] = []
    for name in names:
        try:
            found.append(ask(name))
        except refused.UnknownName as error:
            missing.append(error)
    told = refused.all_missing(missing) if missing else None
    if told is not None and not found:
        raise told
    return found, told


def end(missing: UserError | None, code: Exit = Exit.OK) -> Exit:
    """Returns the exit code of a command that has shown what exists. Raises the error for the rest, exit code 1."""
    if missing is None:
        return code
    missing.exit_code = Exit.NO
    raise missing

"""Options of the sources, parsed once into frozen values; unknown or wrong options are refused by name.

Names and JSON forms are those of Spark's own Kafka source. Letter case does not count, as in Spark.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trimaran.spark.kafka_options import KafkaOption
from trimaran.wire.identity import TopicPartition

log = logging.getLogger(__name__)
T = TypeVar("T")

UNKNOWN_SHOWN = 5  # a list of options for another source would hide the message
OPTIONS_PAGE = "docs/spark_options.md has all options."
# Spark passes the options of a table only when it is created, and only if it has no columns of its own.
LOST_OPTIONS = (
    "; if this is a table of a catalog, create it without columns, or name the path in each query: "
    "SELECT … FROM t WITH (path '…')"
)
NO_NAMES: tuple[str, ...] = ()
INT_MAX, LONG_MAX = (1 << 31) - 1, (1 << 63) - 1  # of Kafka's types of properties
EARLIEST, LATEST = -2, -1  # the values of Spark's Kafka source and of ListOffsets


class OptionError(ValueError):
    """A wrong option: the message names it, its value, and the valid values."""


class OptionReader:
    """Reads string options and remembers the names that were read; `finish` refuses all other options."""

    def __init__(self, source: str, given: Mapping[str, str]) -> None:
        self._source = source
        self._given = {name.lower(): value for name, value in given.items()}
        self._known: dict[str, str] = {}

    def get(self, name: str) -> str | None:
        self._known[name.lower()] = name
        return self._given.get(name.lower())

    def peek(self, name: str) -> str | None:
        """Returns an option that another method, or `finish`, decides about."""
        return self._given.get(name.lower())

    def parse(self, name: str, convert: Callable[[str], T], default: T, expected: str) -> T:
        """Returns the converted value; `convert` raises ValueError for a wrong one."""
        text = self.get(name)
        if text is None:
            return default
        try:
            return convert(text)
        except (ValueError, TypeError, KeyError, AttributeError, re.error):
            raise self.wrong(name, f"{text!r} is not {expected}") from None

    def choice(self, name: str, values: Iterable[str], default: str) -> str:
        allowed = tuple(values)

        def convert(text: str) -> str:
            if text.lower() not in allowed:
                raise ValueError(text)
            return text.lower()

        return self.parse(name, convert, default, "one of " + ", ".join(allowed))

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def wrong(self, name: str, why: str) -> OptionError:
        return OptionError(f"{self._source}: option {name}: {why}")

    def paths(self) -> tuple[str, ...]:
        """Returns `path`, or several paths (`paths`, a JSON array from `load([...])`); relative paths become absolute,
        since executors run elsewhere.
        """
        one = self.get("path")
        many = self.parse("paths", _strings, NO_NAMES, "a JSON array of paths")
        found = (one,) if one else many
        if not found:
            raise OptionError(
                f"{self._source}: no path: .load('DIRECTORY') names node directories; option kafka.bootstrap.servers "
                f"names brokers{'' if self._given else LOST_OPTIONS}"
            )
        return tuple(map(_absolute, found))

    def prefixed(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """Returns all options `PREFIXname`, without the prefix, by name."""
        found = {
            name: value for name, value in self._given.items() if name.startswith(prefix.lower())
        }
        self._known.update({name: name for name in found})
        return tuple(sorted((name[len(prefix) :], value) for name, value in found.items()))

    def refuse(self, why: str, *names: str) -> None:
        """Raises OptionError if one of these options is given, since it would have no effect."""
        for name in names:
            if self.get(name) is not None:
                raise self.wrong(name, f"has no effect here: {why}")

    def idle(self, why: str, *names: str) -> tuple[str, ...]:
        """Returns a sentence if any of these options is given, which have no effect."""
        found = ", ".join(name for name in names if self.get(name) is not None)
        return (f"{self._source}: no effect of {found}: {why}.",) if found else ()

    def given_names(self) -> list[tuple[str, str]]:
        """Returns the options that were read: names in lower case, and as written."""
        return [(name, self._known[name]) for name in self._given if name in self._known]

    def finish(self, table: Mapping[str, KafkaOption]) -> tuple[str, ...]:
        """Returns a sentence for each reason for which options of the connector have no effect here.

        Raises:
            OptionError: an option was given that no method has read, and that `table` does not excuse.
        """
        idle: dict[str, list[str]] = {}
        unknown = []
        for name, value in self._given.items():
            if name in self._known:
                continue
            option = table.get(name)
            if option is None or option.effect == "acts":
                unknown.append(name)
            elif option.effect == "no effect" or value.strip().endswith(option.harmless):
                idle.setdefault(option.why, []).append(option.name)
            else:
                raise self.wrong(option.name, f"is not supported: {option.why}")
        if unknown:
            raise OptionError(self._unknown(unknown, table))
        return tuple(sentence for why, names in idle.items() for sentence in self.idle(why, *names))

    def _unknown(self, names: Sequence[str], table: Mapping[str, KafkaOption]) -> str:
        known = {**{name: option.name for name, option in table.items()}, **self._known}
        told = []
        for name in names[:UNKNOWN_SHOWN]:
            near = difflib.get_close_matches(name, known, n=1)
            told.append(f"{name}; did you mean {known[near[0]]}?" if near else f"{name}.")
        more = f" And {len(names) - UNKNOWN_SHOWN} more." if len(names) > UNKNOWN_SHOWN else ""
        return (
            f"{self._source}: unknown option {' Unknown option '.join(told)}{more} {OPTIONS_PAGE}"
        )


def tell(notes: Iterable[str]) -> None:
    """Logs sentences about options without effect."""
    for note in notes:
        log.warning("%s", note)


def _strings(text: str) -> tuple[str, ...]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(text)
    return tuple(found)


def _absolute(path: str) -> str:
    is_url = "://" in path or path.startswith("file:/")
    return path if is_url else os.path.abspath(os.path.expanduser(path))


def names_of(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def positive(text: str) -> int:
    if (number := int(text)) <= 0:
        raise ValueError(text)
    return number


def between(least: int, most: int = INT_MAX) -> Callable[[str], int]:
    """Returns a function that parses numbers within these bounds."""

    def convert(text: str) -> int:
        if not least <= (number := int(text)) <= most:
            raise ValueError(text)
        return number

    return convert


def _assignment(text: str) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic, int(p)) for topic, ps in json.loads(text).items() for p in ps
    )


_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "us": 1e-6}


def duration_seconds(text: str) -> float:
    """Parses a duration as Spark writes it: `15m`, `500ms`, `1h`; a bare number is in milliseconds."""
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if found is None or (found[2] and found[2] not in _SECONDS):
        raise ValueError(text)
    return int(found[1]) * _SECONDS[found[2] or "ms"]


# Kafka's `Topic.INTERNAL_TOPICS`
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class TopicsWanted:
    """The partitions to read; by default all except those of topics named `__…`.

    A pattern is searched in the name, and does not match internal topics, as in Spark's Kafka source
    (`SubscribePatternStrategy`).
    """

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None

    def __contains__(self, topic_partition: TopicPartition) -> bool:
        topic = topic_partition[0]
        if self.assigned is not None:
            return topic_partition in self.assigned
        if self.pattern is not None:
            return topic not in INTERNAL_TOPICS and re.search(self.pattern, topic) is not None
        return topic in self.names if self.names else not topic.startswith("__")


def topics_wanted(o: OptionReader) -> TopicsWanted:
    names = o.parse("subscribe", _some_names, NO_NAMES, "topics parted by commas")
    pattern: str | None = o.parse("subscribePattern", _pattern, None, "a regular expression")
    assigned = o.parse("assign", _assignment_or_none, None, 'JSON such as {"orders":[0,1]}')
    if bool(names) + (pattern is not None) + (assigned is not None) > 1:
        raise o.wrong(
            "subscribe", "only one of assign, subscribe and subscribePattern may be given"
        )
    return TopicsWanted(names, pattern, assigned)


def _some_names(text: str) -> tuple[str, ...]:
    if not (names := names_of(text)):
        raise ValueError(text)
    return names


def _pattern(text: str) -> str | None:
    if not (pattern := text.strip()):
        raise ValueError(text)
    re.compile(pattern)
    return pattern


def _assignment_or_none(text: str) -> Any:
    if not (assigned := _assignment(text)):
        raise ValueError(text)
    return assigned

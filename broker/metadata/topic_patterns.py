"""The topic names that the patterns of consumer groups match (KIP-848): a thread finds them for all groups of a broker.

RE2 takes time linear in the name for any pattern, but up to a millisecond per thousand instructions of its program if
no two names follow the same path through it. Therefore programs are bounded, names are matched a few milliseconds at a
time (RE2 releases the interpreter lock), and the matches of a pattern are cached: later only new topics are matched.
Kafka uses RE2/J, in a thread as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar, TypeVarTuple

import re2
import trio

from trimaran.wire.errors import ErrorCode, KafkaError
from trimaran.wire.transport.scheduling.compute_thread import run_apart

Matches = Callable[[str], object]

Topics = Mapping[str, object]
"""The topics of one metadata image by name; a different object if the topics may differ."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The maximum length of a pattern.
REGEX_CHARACTERS_MAX = 10_000
# The maximum size of a program: about one instruction per character of the pattern with its repetitions expanded.
INSTRUCTIONS_MAX = 10_000
# The memory of a program and its cached states while names are matched: with less memory, matching names of 249
# characters takes many times as long, because no state stays in the cache.
MEMORY_BYTES_MAX = 8 << 20
# The number of patterns that have such memory at the same time.
PATTERNS_AT_ONCE = 4
# The time for which names are matched before other work of the thread gets its turn.
HOLD_SECONDS = 0.005
# The bound for the cached matches of all patterns: 16 MiB for the sets; the names themselves belong to the metadata.
NAMES_KEPT_MAX = 250_000
PATTERNS_KEPT_MAX = 1_000


class _Matched(NamedTuple):
    topics: Topics
    names: frozenset[str]


class TopicPatterns:
    """The matching names by pattern, ordered by the last request."""

    def __init__(self) -> None:
        self._known: dict[str, _Matched] = {}
        self._kept = 0
        self._busy: dict[str, trio.Event] = {}
        self._slots = trio.CapacityLimiter(PATTERNS_AT_ONCE)
        self._turn = trio.Lock()

    def knows(self, regex: str) -> bool:
        """Returns whether the pattern is known to be valid."""
        return regex in self._known

    async def refusal(self, regex: str) -> KafkaError | None:
        """Returns INVALID_REGULAR_EXPRESSION if RE2 does not support the pattern or it is too large, else None."""
        try:
            if not self.knows(regex):
                await self._apart(compiled, regex)
        except KafkaError as error:
            return error
        return None

    async def matching(self, regex: str, topics: Topics) -> frozenset[str]:
        """Returns the topics whose whole name matches, including those that the principal may not see.

        Raises:
            KafkaError: the errors that `refusal` returns.
        """
        while (known := self._known.get(regex)) is None or known.topics is not topics:
            if (busy := self._busy.get(regex)) is not None:
                await busy.wait()  # another group waits for the same pattern
            else:
                await self._find(regex, topics, known)
        self._keep(regex, known)
        return known.names

    async def _find(self, regex: str, topics: Topics, known: _Matched | None) -> None:
        done = self._busy[regex] = trio.Event()
        try:
            async with self._slots:
                self._keep(regex, _Matched(topics, await self._matching(regex, topics, known)))
        finally:
            del self._busy[regex]
            done.set()

    async def _matching(self, regex: str, topics: Topics, known: _Matched | None) -> frozenset[str]:
        matches = await self._apart(compiled, regex)
        found: set[str] = set()
        if known is not None:
            found.update(name for name in known.names if name in topics)
        names = iter(topics if known is None else _new(known.topics, topics))
        while not await self._apart(_match_some, matches, names, found):
            pass
        return frozenset(found)

    async def _apart(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Runs one piece of work in the thread. Only one piece runs at a time for all patterns, so that other work of
        the thread never waits for two.
        """
        async with self._turn:
            return await run_apart(work, *args)

    def _keep(self, regex: str, matched: _Matched) -> None:
        before = self._known.pop(regex, None)
        self._known[regex] = matched
        self._kept += len(matched.names) - (0 if before is None else len(before.names))
        while self._kept > NAMES_KEPT_MAX or len(self._known) > PATTERNS_KEPT_MAX:
            oldest = next(iter(self._known))
            self._kept -= len(self._known.pop(oldest).names)


def compiled(regex: str) -> Matches:
    """Returns a function that tests whether a whole name matches. Takes up to about ten milliseconds.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION if RE2 does not support the pattern or it is too large.
    """
    if len(regex) > REGEX_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex is longer than {REGEX_CHARACTERS_MAX} characters.",
        )
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True  # captured groups are never read, and cost more than the match
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _invalid(regex, reason) from None
    finally:
        re2.purge()  # otherwise RE2 caches the last hundred patterns with all their memory
    if pattern.programsize > INSTRUCTIONS_MAX:
        raise _invalid(
            regex, f"it takes {pattern.programsize} instructions, more than {INSTRUCTIONS_MAX}"
        )
    match: Matches = pattern.fullmatch
    return match


def _invalid(regex: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{regex[:200]}` is not a valid regular expression: {reason}.",
    )


def _new(before: Topics, now: Topics) -> Iterator[str]:
    return (name for name in now if name not in before)


def _match_some(matches: Matches, names: Iterable[str], found: set[str]) -> bool:
    """Matches names for `HOLD_SECONDS`. Returns whether all names have been matched."""
    end = time.perf_counter() + HOLD_SECONDS
    for name in names:
        if matches(name):
            found.add(name)
        if time.perf_counter() > end:
            return False
    return True

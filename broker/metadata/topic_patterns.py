"""The names of topics that the patterns of consumer groups match (KIP-848): found in a thread, for all groups
of a broker together.

RE2 takes time linear in the name, whatever the pattern; but up to a millisecond for each thousand instructions of its
program where no two names take the same way through it. So programs have a bound, names are matched some milliseconds
at a time (RE2 lets go of the interpreter lock), and the matches of a pattern are kept: later only new topics are
matched. Kafka uses RE2/J, in a thread as well.
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
"""By name those of one image of the metadata: another object when there may be others."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# The length of a pattern.
REGEX_CHARACTERS_MAX = 10_000
# The size of a program: an instruction is about a character of the pattern with its repetitions written out.
INSTRUCTIONS_MAX = 10_000
# For a program and the states that it was in, as long as names are matched: with less of it names of 249 characters
# take many times as long, as no state is met again.
MEMORY_BYTES_MAX = 8 << 20
# This many patterns have such memory at once.
PATTERNS_AT_ONCE = 4
# Names are matched for this long before other work of the thread has its turn.
SLICE_SECONDS = 0.005
# The size of the kept matches of all patterns: 16 MiB in sets of names, which are the metadata's.
NAMES_KEPT_MAX = 250_000
PATTERNS_KEPT_MAX = 1_000


class _Matched(NamedTuple):
    topics: Topics
    names: frozenset[str]


class TopicPatterns:
    """The names that patterns match, by pattern; the newest request is the last."""

    def __init__(self) -> None:
        self._known: dict[str, _Matched] = {}
        self._kept = 0
        self._busy: dict[str, trio.Event] = {}
        self._slots = trio.CapacityLimiter(PATTERNS_AT_ONCE)
        self._turn = trio.Lock()

    def knows(self, regex: str) -> bool:
        """Whether it is a pattern for certain."""
        return regex in self._known

    async def refusal(self, regex: str) -> KafkaError | None:
        """INVALID_REGULAR_EXPRESSION: RE2 does not understand the pattern, or it is too large."""
        try:
            if not self.knows(regex):
                await self._apart(compiled, regex)
        except KafkaError as error:
            return error
        return None

    async def matching(self, regex: str, topics: Topics) -> frozenset[str]:
        """Returns the topics whose whole name matches, for any principal.

        Raises:
            KafkaError: as `refusal`.
        """
        while (known := self._known.get(regex)) is None or known.topics is not topics:
            if (busy := self._busy.get(regex)) is not None:
                await busy.wait()  # another group asks for the same
            else:
                await self._find(regex, topics, known)
        self._keep(regex, known)
        return known.names

    async def _find(self, regex: str, topics: Topics, known: _Matched | None) -> None:
        done = self._busy[regex] = trio.Event()
        try:
            async with self._slots:
                self._keep(regex, _Matched(topics, await self._look(regex, topics, known)))
        finally:
            del self._busy[regex]
            done.set()

    async def _look(self, regex: str, topics: Topics, known: _Matched | None) -> frozenset[str]:
        matches = await self._apart(compiled, regex)
        found: set[str] = set()
        if known is not None:
            found.update(name for name in known.names if name in topics)
        names = iter(topics if known is None else _new(known.topics, topics))
        while not await self._apart(_match_some, matches, names, found):
            pass
        return frozenset(found)

    async def _apart(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """One piece of work for patterns at a time: others that want the thread wait for no second one."""
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
    """Tells whether a whole name matches. Takes up to some ten milliseconds.

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION: RE2 does not understand it, or it is too large.
    """
    if len(regex) > REGEX_CHARACTERS_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex is longer than {REGEX_CHARACTERS_MAX} characters.",
        )
    options = re2.Options()
    options.max_mem = MEMORY_BYTES_MAX
    options.log_errors = False
    options.never_capture = True  # no caller asks for groups, which cost more than the match
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "it cannot be read"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise _invalid(regex, reason) from None
    finally:
        re2.purge()  # or it keeps the last hundred, with all their memory
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
    """Whether those were the last names."""
    end = time.perf_counter() + SLICE_SECONDS
    for name in names:
        if matches(name):
            found.add(name)
        if time.perf_counter() > end:
            return False
    return True

"""Patterns over all topics: matches, refusals, and how few names are matched again."""

from __future__ import annotations

import pytest
import trio
from immutables import Map

from trimaran.broker.metadata import topic_patterns
from trimaran.broker.metadata.topic_patterns import (
    INSTRUCTIONS_MAX,
    NAMES_KEPT_MAX,
    PATTERNS_KEPT_MAX,
    REGEX_CHARACTERS_MAX,
    TopicPatterns,
    compiled,
)
from trimaran.wire.errors import ErrorCode, KafkaError


def topics(*names):
    return Map(dict.fromkeys(names))


@pytest.fixture
def tried(monkeypatch):
    """Notes the names that were matched with a pattern, and the patterns that were compiled."""
    names, patterns = [], []
    compile_it = topic_patterns.compiled

    def counting(regex):
        patterns.append(regex)
        matches = compile_it(regex)

        def noting(name):
            names.append(name)
            return matches(name)

        return noting

    monkeypatch.setattr(topic_patterns, "compiled", counting)
    return names, patterns


async def test_pattern_must_match_whole_name():
    found = TopicPatterns()
    names = topics("tu", "t", "ut")
    assert await found.matching("t", names) == {"t"}
    assert await found.matching("t.*", names) == {"t", "tu"}


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("(", "missing )"),
        ("a{2000}", "repetition"),
        ("(?=x)", "invalid perl"),
        ("((a{100}){100}){100}", "repetition size"),
        (r"(?:\pL?){40}", f"more than {INSTRUCTIONS_MAX}"),
    ],
)
async def test_invalid_or_large_pattern_is_refused_with_reason(regex, reason, capfd):
    refusal = await TopicPatterns().refusal(regex)
    assert refusal.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "not a valid regular expression" in str(refusal)
    assert reason in str(refusal)
    assert "b'" not in str(refusal)
    assert capfd.readouterr().err == ""  # RE2 does not write the error to stderr


def test_long_pattern_is_refused_before_parsing():
    assert compiled("a" * 9_900)("a" * 9_900)
    assert compiled("a{0}" * (REGEX_CHARACTERS_MAX // 4))("")
    with pytest.raises(KafkaError, match="longer than"):
        compiled("a" * (REGEX_CHARACTERS_MAX + 1))


async def test_resolved_pattern_is_known(tried):
    found = TopicPatterns()
    assert not found.knows("t.*")
    await found.matching("t.*", topics("t"))
    assert found.knows("t.*")
    assert await found.refusal("t.*") is None
    assert tried[1] == ["t.*"]


async def test_simultaneous_resolutions_match_topics_once(tried):
    found, names = TopicPatterns(), topics("t1", "t2", "u")
    answers = []

    async def ask():
        answers.append(await found.matching("t.*", names))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(ask)
    assert answers == [{"t1", "t2"}] * 10
    assert sorted(tried[0]) == ["t1", "t2", "u"]


async def test_only_new_topics_are_matched_later(tried):
    found, before = TopicPatterns(), topics("t1", "t2", "u")
    await found.matching("t.*", before)
    tried[0].clear()
    assert await found.matching("t.*", before.set("t3", None).delete("t1")) == {"t2", "t3"}
    assert tried[0] == ["t3"]


async def test_names_are_matched_some_milliseconds_at_a_time(monkeypatch):
    """If there is no time, each name is a slice of its own."""
    monkeypatch.setattr(topic_patterns, "HOLD_SECONDS", 0.0)
    slices = []
    run_apart = topic_patterns.run_apart

    async def counting(work, *args):
        slices.append(work)
        return await run_apart(work, *args)

    monkeypatch.setattr(topic_patterns, "run_apart", counting)
    assert len(await TopicPatterns().matching(".", topics(*"abcde"))) == 5
    assert len(slices) == 1 + 5 + 1  # one compilation, five names, and the end


async def test_pattern_with_large_automaton_is_matched():
    """With less memory, a name takes half a millisecond or more: 4.5 s for these topics."""
    names = topics(*(f"some.team.topic-{number}.events" for number in range(50)))
    assert await TopicPatterns().matching(r"(?:[a-z0-9.\-]?){1000}", names) == set(names)


async def test_pattern_cache_is_bounded(monkeypatch):
    assert NAMES_KEPT_MAX > PATTERNS_KEPT_MAX
    monkeypatch.setattr(topic_patterns, "NAMES_KEPT_MAX", 5)
    monkeypatch.setattr(topic_patterns, "PATTERNS_KEPT_MAX", 3)
    found, names = TopicPatterns(), topics("a", "b")
    for regex in ("a", "b", "a|b"):
        await found.matching(regex, names)
    await found.matching("a", names)  # the pattern that was used last
    await found.matching("[ab]", names)
    assert [regex for regex in ("a", "b", "a|b", "[ab]") if found.knows(regex)] == [
        "a",
        "a|b",
        "[ab]",
    ]
    await found.matching("c", names)
    assert not found.knows("a|b")


async def test_names_in_all_patterns_are_bounded(monkeypatch):
    monkeypatch.setattr(topic_patterns, "NAMES_KEPT_MAX", 4)
    found, names = TopicPatterns(), topics("a", "b")
    for regex in ("a|b", "[ab]", "a|b", "[ab]"):
        await found.matching(regex, names)
    assert found.knows("a|b")
    await found.matching("a", names)
    assert not found.knows("a|b")
    assert found._kept == 3


async def test_pattern_is_not_kept_in_library_cache(monkeypatch):
    """RE2's binding would keep a hundred patterns or so, with 8 MiB each."""
    await TopicPatterns().matching("t.*", topics("t"))
    assert topic_patterns.re2._Regexp._make.cache_info().currsize == 0

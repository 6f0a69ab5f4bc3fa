"""Names and patterns as arguments: which names they are for, and what is missing."""

import pytest

from trimaran.cli import names
from trimaran.errors.refused import all_missing, no_group, no_topic
from trimaran.errors.user_error import Exit, UserError

KNOWN = ["b", "a1", "a2", "x*"]


@pytest.mark.parametrize(
    ("words", "matching"),
    [
        ([], KNOWN),
        (["a1"], ["a1"]),
        (["a?", "b"], ["b", "a1", "a2"]),
        (["a[2-9]"], ["a2"]),
        (["x*"], ["x*"]),
        (["A1", "c"], []),
    ],
)
def test_words_match_names_or_patterns(words, matching):
    assert [name for name in KNOWN if names.matches(name, words)] == matching


@pytest.mark.parametrize(
    ("words", "result"),
    [
        (["b", "c", "b"], ["b", "c"]),
        (["a*", "a1", "c"], ["a1", "a2", "c"]),
        (["b", "a?"], ["b", "a1", "a2"]),
        (["z*", "a2"], ["z*", "a2"]),
        (["x*"], ["x*"]),
    ],
)
def test_pattern_is_replaced_by_its_names(words, result):
    assert names.expanded(words, lambda: KNOWN) == result


def test_plain_names_are_not_looked_up():
    assert names.expanded(["b", "c"], lambda: pytest.fail("listed")) == ["b", "c"]


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        (["__consumer_offsets"], True),
        (["__*"], True),
        (["a", "__c*"], True),
        (["*"], False),
        (["_*"], False),
        (["__t*", "*offsets"], False),
        ([], False),
    ],
)
def test_internal_topic_needs_its_own_prefix(words, is_named):
    assert names.names_internal("__consumer_offsets", words) is is_named


@pytest.mark.parametrize(
    ("words", "is_list"), [(["a"], False), (["a", "b"], True), (["a*"], True), ([], True)]
)
def test_data_of_several_is_a_list(words, is_list):
    assert names.several(words) is is_list


def known(name):
    if name not in KNOWN:
        raise no_group(name)
    return name.upper()


def test_existing_are_found_and_others_named_once():
    found, missing = names.each(["c", "b", "d", "a1"], known)
    assert found == ["B", "A1"]
    assert str(missing).splitlines()[0] == "error: there are no groups c, d"
    with pytest.raises(UserError) as told:
        names.end(missing, Exit.OK)
    assert told.value is missing
    assert missing.exit_code is Exit.NO


def test_nothing_found_is_refused():
    with pytest.raises(UserError, match="there is no group c") as told:
        names.each(["c"], known)
    assert told.value.exit_code is Exit.REFUSED
    assert names.each([], known) == ([], None)


def test_nothing_missing_keeps_the_exit_code():
    found, missing = names.each(["b"], known)
    assert (found, missing) == (["B"], None)
    assert names.end(missing) is Exit.OK
    assert names.end(missing, Exit.NO) is Exit.NO


def test_each_missing_name_gets_its_suggestion():
    error = all_missing([no_topic("ordrs"), no_topic("zzz"), no_topic("paymens")])
    error.suggest(["orders", "payments"])
    assert error.what == "there are no topics ordrs, zzz, paymens"
    assert error.why == (
        "no broker knows it; ordrs: did you mean orders?; paymens: did you mean payments?"
    )


def test_pattern_is_told_from_a_name():
    assert "which no topic matches or this command does not take" in no_topic("or*").why
    assert no_group("v[1]").fix == "trimaran groups list 'v[1]' shows the groups that match"
    assert no_topic("orders").why == "no broker knows it"

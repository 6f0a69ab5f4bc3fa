"""The rules of share groups find each error that is planted in a correct history, and none in the history itself."""

from dataclasses import replace

import pytest

from tests.share_history import (
    Decision,
    Delivery,
    Ending,
    History,
    Kind,
    Left,
    Letter,
    LostFetch,
    Observed,
    Place,
    Result,
    Rule,
    Settings,
    judge,
    letter_of,
    told,
)

LOCK, LIMIT = 10.0, 3
A, B, C, D = (Place(0, offset) for offset in range(4))
LOG = {A: b"a", B: b"b", C: b"c", D: b"d"}
SETTINGS = Settings(LIMIT, LOCK, has_queue=True)
CONFIRMED, REFUSED, UNKNOWN = Result


def delivery(place, count, sent, **changes):
    values = {"member": "m", "received": sent + 1, "value": LOG.get(place), "term": 1}
    return Delivery(place=place, count=count, sent=sent, **values | changes)


def decision(place, kind, sent, **changes):
    values = {"member": "m", "result": CONFIRMED, "received": sent + 1, "term": 1}
    return Decision(place=place, kind=kind, sent=sent, **values | changes)


# A is accepted at once, B released and then accepted, C rejected, and D delivered until its limit.
DELIVERIES = [
    delivery(A, 1, 0),
    delivery(B, 1, 0),
    delivery(C, 1, 0),
    delivery(D, 1, 0),
    delivery(B, 2, 20),
    *(delivery(D, count, 20 * (count - 1)) for count in (2, 3)),
]
DECISIONS = [
    decision(A, Kind.ACCEPT, 2),
    decision(B, Kind.RELEASE, 2),
    decision(B, Kind.ACCEPT, 22),
    decision(C, Kind.REJECT, 2),
]
LETTERS = [Letter(C, 1, True, b"c"), Letter(D, LIMIT, False)]


def correct(**changes):
    values = {"deliveries": DELIVERIES, "decisions": DECISIONS, "letters": LETTERS}
    return History(**values | changes)


def rules(history, start=4, **changes):
    ending = Ending.at(LOG, {0: start})
    found = judge(history, replace(SETTINGS, **changes), ending)
    return [(breach.rule, breach.place) for breach in found]


def without(items, *unwanted):
    return [item for item in items if item not in unwanted]


def test_correct_history_breaks_no_rule():
    assert rules(correct()) == []
    assert rules(correct(), is_calm=True) == []
    assert rules(correct(), knows_leases=True) == []


B_AGAIN = delivery(B, 2, 20)
SLOW = delivery(A, 1, 0, received=30)

PLANTED = {
    "record that the group has not passed": ({}, {"start": 3}, [(Rule.NOT_ENDED, D)]),
    "record that no member received": (
        {"deliveries": without(DELIVERIES, DELIVERIES[0]), "decisions": DECISIONS[1:]},
        {"has_queue": False},
        [(Rule.NEVER_DELIVERED, A)],
    ),
    "record that ended undecided": (
        {"decisions": DECISIONS[1:]},
        {"has_queue": False},
        [(Rule.ENDED_WITHOUT_REASON, A)],
    ),
    "record that ended though all was refused": (
        {"decisions": [DECISIONS[0]._replace(result=REFUSED, term=None), *DECISIONS[1:]]},
        {"has_queue": False},
        [(Rule.ENDED_WITHOUT_REASON, A)],
    ),
    "delivery after an accept": (
        {"deliveries": [*DELIVERIES, delivery(A, 2, 3)]},
        {},
        [(Rule.DELIVERED_AFTER_END, A)],
    ),
    "delivery after a reject": (
        {"deliveries": [*DELIVERIES, delivery(C, 2, 3)]},
        {},
        [(Rule.DELIVERED_AFTER_END, C)],
    ),
    "count that skips a delivery": (
        {"deliveries": [*without(DELIVERIES, B_AGAIN), B_AGAIN._replace(count=3)]},
        {},
        [(Rule.COUNT_TOO_HIGH, B)],
    ),
    "count of an only delivery": (
        {"deliveries": [DELIVERIES[0]._replace(count=2), *DELIVERIES[1:]]},
        {},
        [(Rule.COUNT_TOO_HIGH, A)],
    ),
    "delivery beyond the limit": (
        {"deliveries": [*DELIVERIES, delivery(D, 4, 60)]},
        {},
        [(Rule.COUNT_TOO_HIGH, D)],
    ),
    "count that forgets a release": (
        {"deliveries": [*without(DELIVERIES, B_AGAIN), B_AGAIN._replace(count=1, term=2)]},
        {},
        [(Rule.COUNT_TOO_LOW, B)],
    ),
    "count that forgets a lock": (
        {"deliveries": [*DELIVERIES, delivery(D, 3, 60)]},
        {},
        [(Rule.COUNT_TOO_LOW, D)],
    ),
    "second member within a lock": (
        {"deliveries": [*DELIVERIES[:5], delivery(D, 2, 8, member="n"), delivery(D, 3, 40)]},
        {},
        [(Rule.TWO_HOLDERS, D)],
    ),
    "second member within a renewed lock": (
        {"decisions": [*DECISIONS, decision(D, Kind.RENEW, 12)]},
        {},
        [(Rule.TWO_HOLDERS, D)],
    ),
    "refusal of the holder": (
        {"decisions": [decision(A, Kind.ACCEPT, 2, result=REFUSED), *DECISIONS]},
        {},
        [(Rule.HOLDER_REFUSED, A)],
    ),
    "release of another than the holder": (
        {"decisions": [*DECISIONS, decision(D, Kind.RELEASE, 2, member="n")]},
        {},
        [(Rule.OTHER_ACCEPTED, D)],
    ),
    "count of a lease after a session": (
        {
            "deliveries": [*DELIVERIES[:5], *(delivery(D, 1, at) for at in (20, 40))],
            "decisions": [*DECISIONS, decision(D, Kind.ACCEPT, 42)],
            "left": [Left("m", 0, at) for at in (2, 22)],
            "letters": LETTERS[:1],
        },
        {"knows_leases": True},
        [(rule, D) for rule in (Rule.COUNT_TOO_HIGH, Rule.COUNT_TOO_LOW) * 2],
    ),
    "count of a lease that skips one": (
        {
            "deliveries": [
                *DELIVERIES[:5],
                delivery(D, 2, 20, term=2),
                delivery(D, 3, 40),
            ],
        },
        {"knows_leases": True},
        [(Rule.COUNT_TOO_HIGH, D)],
    ),
    "another value than the log's": (
        {"deliveries": [DELIVERIES[0]._replace(value=b"x"), *DELIVERIES[1:]]},
        {},
        [(Rule.ALTERED, A)],
    ),
    "another value in a letter": (
        {"letters": [LETTERS[0]._replace(value=b"x"), LETTERS[1]]},
        {},
        [(Rule.ALTERED, C)],
    ),
    "record that is not in the log": (
        {"deliveries": [*DELIVERIES, delivery(Place(0, 4), 1, 0)]},
        {},
        [(Rule.ALTERED, Place(0, 4))],
    ),
    "reject without a letter": ({"letters": LETTERS[1:]}, {}, [(Rule.LETTER_MISSING, C)]),
    "limit without a letter": ({"letters": LETTERS[:1]}, {}, [(Rule.LETTER_MISSING, D)]),
    "letter about an accepted record": (
        {"letters": [*LETTERS, Letter(A, 1, True)]},
        {},
        [(Rule.LETTER_WITHOUT_REASON, A)],
    ),
    "letter below the limit": (
        {"letters": [*LETTERS, Letter(B, 2, False)]},
        {},
        [(Rule.LETTER_WITHOUT_REASON, B)],
    ),
    "letter about an accept at the limit": (
        {"decisions": [*DECISIONS, decision(D, Kind.ACCEPT, 42)]},
        {},
        [(Rule.LETTER_WITHOUT_REASON, D)],
    ),
    "letter with another count": (
        {"letters": [LETTERS[0]._replace(count=2), LETTERS[1]]},
        {},
        [(Rule.LETTER_WITHOUT_REASON, C)],
    ),
    "second letter without a fault": (
        {"letters": [*LETTERS, LETTERS[0]]},
        {"is_calm": True},
        [(Rule.LETTER_DOUBLED, C)],
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_error_breaks_its_rule(name):
    observed, known, found = PLANTED[name]
    assert rules(correct(**observed), **known) == found


def test_every_way_to_break_a_rule_is_planted():
    found = {rule for _, _, broken in PLANTED.values() for rule, _ in broken}
    assert found == set(Rule)
    assert {rule.id for rule in Rule} == {"Q1", "Q2", "Q3", "Q4", "Q5", "Q9", "Q12"}


def test_observations_are_judged_one_by_one():
    record = Observed(SETTINGS)[A]
    first, again = delivery(A, 1, 0), delivery(A, 2, 5)
    record.deliveries.append(first)
    assert list(record.judged_delivery(first)) == []
    asked = decision(A, Kind.ACCEPT, 2, result=UNKNOWN)
    record.decisions.append(asked)
    record.answered(asked, CONFIRMED, 4)
    record.deliveries.append(again)
    assert [breach.rule for breach in record.judged_delivery(again)] == [Rule.DELIVERED_AFTER_END]
    assert (record.may_be(Kind.ACCEPT), record.may_be(Kind.REJECT)) == (True, False)


@pytest.mark.parametrize(("at", "broken"), [(9.9, True), (10, False), (10.1, False)])
def test_lock_ends_after_its_duration(at, broken):
    record = Observed(SETTINGS)[D]
    holder = Delivery("m", D, 1, 0, 0, term=1)
    other = Delivery("n", D, 2, at, at, term=1)
    record.deliveries += [holder, other]
    assert (
        any(breach.rule is Rule.TWO_HOLDERS for breach in record.judged_delivery(other)) is broken
    )
    late = Decision("m", D, Kind.RELEASE, CONFIRMED, at + 9, at + 9, 1)
    assert [breach.rule.id for breach in record.judged_decision(late)] == ["Q4"]


@pytest.mark.parametrize(("result", "may_be"), [(REFUSED, False), (UNKNOWN, True)])
def test_refused_decision_is_not_stored(result, may_be):
    record = Observed(SETTINGS)[A]
    asked = decision(A, Kind.ACCEPT, 2, result=UNKNOWN)
    record.decisions.append(asked)
    record.answered(asked, result, 4)
    assert record.may_be(Kind.ACCEPT) is may_be


LOST = LostFetch("n", 0, 0)

ALLOWED = {
    "second letter after a fault": ({"letters": [*LETTERS, LETTERS[0]]}, {}),
    "count of a lost delivery": (
        {"deliveries": [DELIVERIES[0]._replace(count=2), *DELIVERIES[1:]], "lost": [LOST]},
        {},
    ),
    "limit reached by lost deliveries": (
        {"deliveries": without(DELIVERIES, DELIVERIES[-1]), "lost": [LOST]},
        {},
    ),
    "record that only lost fetches had": (
        {
            "deliveries": DELIVERIES[1:],
            "decisions": DECISIONS[1:],
            "lost": [LOST] * LIMIT,
            "letters": [*LETTERS, Letter(A, LIMIT, False)],
        },
        {},
    ),
    "stale leader after an accept": (
        {"deliveries": [*DELIVERIES, delivery(A, 2, 3, is_stale=True, term=None)]},
        {},
    ),
    "stale leader by an old count": (
        {"deliveries": [*DELIVERIES, delivery(B, 1, 21, is_stale=True, term=None, member="n")]},
        {},
    ),
    "answer that arrives after the accept": (
        {"deliveries": [*DELIVERIES, delivery(A, 2, 2.5, received=9)]},
        {},
    ),
    "count that a successor does not know": (
        {"deliveries": [*DELIVERIES, delivery(D, 3, 60, term=2)]},
        {},
    ),
    "successor that does not know a lock": (
        {"deliveries": [*DELIVERIES, delivery(D, 2, 5, term=2, member="n")]},
        {},
    ),
    "lock of a member that left": (
        {
            "deliveries": [*DELIVERIES[:5], delivery(D, 2, 8), delivery(D, 3, 40)],
            "left": [Left("m", 0, 7)],
        },
        {},
    ),
    "renewal that the end of a session overtakes": (
        {
            "deliveries": [*DELIVERIES[:5], delivery(D, 2, 15), delivery(D, 3, 40)],
            "decisions": [*DECISIONS, decision(D, Kind.RENEW, 8, received=14)],
            "left": [Left("m", 0, 12)],
        },
        {},
    ),
    "release of a record that was released": (
        {"decisions": [*DECISIONS, decision(B, Kind.RELEASE, 4, member="n")]},
        {},
    ),
    "refusal after the lock": (
        {"decisions": [*DECISIONS, decision(D, Kind.ACCEPT, 53, result=REFUSED)]},
        {},
    ),
    "refusal of a repeated decision": (
        {"decisions": [*DECISIONS, decision(A, Kind.ACCEPT, 4, result=REFUSED)]},
        {},
    ),
    "refusal by a successor": (
        {"decisions": [*DECISIONS, decision(D, Kind.ACCEPT, 42, result=REFUSED, term=2)]},
        {},
    ),
    "accept without an answer": (
        {"decisions": [DECISIONS[0]._replace(result=UNKNOWN), *DECISIONS[1:]]},
        {},
    ),
    "accept that was too late": (
        {"decisions": [*DECISIONS, decision(D, Kind.ACCEPT, 53)]},
        {},
    ),
    "group without a queue": ({"letters": []}, {"has_queue": False}),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_observation_breaks_no_rule(name):
    observed, known = ALLOWED[name]
    assert rules(correct(**observed), **known) == []


HEADERS = {
    "topic": b"t",
    "partition": b"0",
    "offset": b"2",
    "group": b"g",
    "delivery.count": b"1",
    "message": b"Offset rejected by client.",
}


def headers(**changes):
    return [(f"__dlq.errors.{name}", text) for name, text in {**HEADERS, **changes}.items()]


def test_headers_of_a_letter_are_read():
    assert letter_of(headers(), b"c") == LETTERS[0]
    too_often = {
        "offset": b"3",
        "delivery.count": b"3",
        "message": b"Offset delivery count exceeded the threshold.",
    }
    assert letter_of(headers(**too_often), None) == LETTERS[1]


@pytest.mark.parametrize(
    "wrong", [{"message": b"?"}, {"topic": b""}, {"group": None}, {"offset": b"x"}, {"more": b"1"}]
)
def test_other_headers_are_refused(wrong):
    with pytest.raises(ValueError, match=r"dead letter|invalid literal"):
        letter_of(headers(**wrong), None)


def test_breaches_are_counted_in_text():
    breaches = judge(correct(letters=[]), SETTINGS, Ending.at(LOG, {0: 4}))
    assert told(breaches).startswith("LETTER_MISSING 2; LETTER_MISSING 0/2: decisions: ")
    assert told([]) == "no rule broken"

"""The rules of a share group's history find what they forbid, and nothing else."""

import pytest

from tests.share_history import Given, ShareHistory

PLACE = ("group", "topic", 0)


class Judged(ShareHistory):
    """A history of one record that collects the broken rules; locks last ten seconds."""

    def __init__(self, *, sees_all=True):
        self.broken = []
        super().__init__(self._note, deliveries_max=3, lock_seconds=10.0, sees_all=sees_all)

    def _note(self, holds, rule, *_why):
        if not holds:
            self.broken.append(rule)

    def deliver(self, member, count, at, lease="l", asked=None):
        asked = at if asked is None else asked
        self.delivered(PLACE, member, [5], count, asked=asked, at=at, lease=lease)

    def ask(self, member, given, at):
        return self.acknowledges(PLACE, member, {5: given}, at=at)

    def acknowledge(self, member, given, at):
        self.confirmed(self.ask(member, given, at), at=at)


@pytest.mark.parametrize("given", [Given.ACCEPT, Given.REJECT, Given.GAP])
def test_done_record_is_not_delivered_again(given):
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.acknowledge("a", given, 1.0)
    assert made.broken == []
    made.deliver("b", 2, 1.0, "other")
    assert made.broken == ["Q1"]


def test_fetch_before_the_response_may_deliver_again():
    made = Judged(sees_all=False)
    made.deliver("a", 1, 0.0, None)
    made.acknowledge("a", Given.ACCEPT, 12.0)
    made.deliver("b", 1, 13.0, None, asked=11.9)
    assert made.broken == []


def test_unanswered_acceptance_allows_both():
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.ask("a", Given.ACCEPT, 1.0)
    assert made.is_final(PLACE, 5)
    made.deliver("b", 2, 1.0)
    assert made.broken == []


def test_only_refused_acceptances_leave_the_record():
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.refused(made.ask("a", Given.ACCEPT, 1.0))
    assert not made.is_final(PLACE, 5)
    made.ask("a", Given.ACCEPT, 2.0)
    made.refused(made.ask("a", Given.ACCEPT, 3.0))
    assert made.is_final(PLACE, 5)


@pytest.mark.parametrize(("count", "broken"), [(1, ["Q2"] * 2), (2, []), (3, ["Q2"] * 2)])
def test_count_follows_the_one_before(count, broken):
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.acknowledge("a", Given.RELEASE, 1.0)
    made.deliver("b", count, 2.0)
    assert made.broken == broken


def test_stored_count_outlives_its_leader():
    made = Judged()
    made.deliver("a", 1, 0.0, "first")
    made.acknowledge("a", Given.RELEASE, 1.0)
    made.deliver("b", 1, 2.0, "second")
    assert made.broken == ["Q2"]


def test_count_that_was_not_stored_may_come_again():
    made = Judged()
    made.deliver("a", 1, 0.0, "first")
    made.deliver("b", 1, 2.0, "second")
    assert made.broken == []


@pytest.mark.parametrize(("count", "broken"), [(3, []), (4, ["Q2"])])
def test_no_record_is_delivered_beyond_the_limit(count, broken):
    made = Judged(sees_all=False)
    made.deliver("a", count, 0.0)
    assert made.broken == broken


@pytest.mark.parametrize(("at", "broken"), [(9.9, ["Q3"]), (10.0, []), (10.1, [])])
def test_lock_ends_after_its_duration(at, broken):
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.deliver("b", 2, at)
    assert made.broken == broken


@pytest.mark.parametrize(("at", "broken"), [(18.9, ["Q3"]), (19.0, []), (19.1, [])])
def test_renewed_lock_begins_again(at, broken):
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.acknowledge("a", Given.RENEW, 9.0)
    made.deliver("b", 2, at)
    assert made.broken == broken


def test_another_leader_does_not_know_the_locks():
    made = Judged()
    made.deliver("a", 1, 0.0, "first")
    made.deliver("b", 1, 1.0, "second")
    assert made.broken == []


def test_session_end_frees_the_records():
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.session_ended(PLACE, "a", at=1.0)
    made.deliver("b", 2, 1.0)
    assert made.broken == []


@pytest.mark.parametrize(("at", "broken"), [(19.9, ["Q4"]), (20.0, []), (20.1, [])])
def test_only_the_holder_acknowledges(at, broken):
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.deliver("b", 2, 10.0)
    made.acknowledge("a", Given.ACCEPT, at)
    assert made.broken == broken


def test_late_acknowledgement_below_the_start_has_no_effect():
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.deliver("b", 2, 10.0)
    made.starts_at(PLACE, 6)
    made.acknowledge("a", Given.ACCEPT, 11.0)
    assert made.broken == []


def test_every_record_is_delivered_and_done():
    made = Judged()
    made.check_complete(PLACE, [5])
    assert made.broken == ["Q5", "Q5"]
    made.deliver("a", 1, 0.0)
    made.check_complete(PLACE, [5])
    assert made.broken == ["Q5"] * 3
    made.acknowledge("a", Given.ACCEPT, 1.0)
    made.starts_at(PLACE, 5)
    made.check_complete(PLACE, [4, 5])
    assert made.broken == ["Q5"] * 3


def test_record_at_the_limit_needs_a_letter():
    made = Judged()
    for count in (1, 2, 3):
        made.deliver("a", count, count * 10.0)
    made.check_complete(PLACE, [5])
    assert made.broken == []
    made.check_complete(PLACE, [5], has_letters=True)
    assert made.broken == ["Q9"]
    made.letter(PLACE, 5, 3)
    made.check_complete(PLACE, [5], has_letters=True)
    assert made.broken == ["Q9"]


def test_letter_needs_a_cause():
    made = Judged()
    made.deliver("a", 1, 0.0)
    made.letter(PLACE, 5, 1)
    assert made.broken == ["Q9"]
    made.ask("a", Given.REJECT, 1.0)
    made.letter(PLACE, 5, 1)
    assert made.broken == ["Q9"]

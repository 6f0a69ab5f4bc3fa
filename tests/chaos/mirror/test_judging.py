"""Each missed target of a fault is reported, and nothing else; a pulse that is never seen in ZooKeeper is infinitely
late.
"""

from dataclasses import replace

import pytest

from tests.chaos.mirror.changes import BAD, PULSE
from tests.chaos.mirror.eye import Sight, in_step_but_for_pulses
from tests.chaos.mirror.fault import Fault
from tests.chaos.mirror.faults import FAULTS
from tests.chaos.mirror.run import Outcome, table
from trimaran.zkcompat.comparing.verify import ReportedDifference, VerifyReport
from trimaran.zkcompat.znodes.entity_config import EntityConfig
from trimaran.zkcompat.znodes.migration import Migration


def nothing(_scene):
    """Does nothing."""
    yield


ONE_ZNODE = Fault(nothing, one_znode=True)
SOUND = Outcome(ONE_ZNODE, "own", converged=2.9, behind=0.09, stood=10.0, cpu_seconds=0.4)


def test_outcome_within_targets_is_ok():
    assert (SOUND.ok, list(SOUND.misses())) == (True, [])
    assert SOUND.verdict == "ok"
    assert SOUND.row() == ("nothing", "2.9 s", "3 s", "never", "90 ms", "4.0 %")


@pytest.mark.parametrize(
    ("worse", "told"),
    [
        ({"converged": 3.1}, "in step after 3.1 s"),
        ({"converged": float("inf"), "slowest": "/a"}, "in step after inf s (/a)"),
        ({"gone": 0.004}, "brokers gone for 0.00 s"),
        ({"behind": 0.2}, "others 200 ms behind"),
        ({"cpu_seconds": 0.6}, "CPU 6.0%"),
        ({"verify": "1 missing"}, "zk verify: 1 missing"),
        ({"problem": "no mirror leads"}, "no mirror leads"),
    ],
)
def test_missed_target_is_reported(worse, told):
    outcome = replace(SOUND, **worse)
    assert (outcome.ok, list(outcome.misses())) == (False, [told])
    assert told in table([SOUND, outcome])


def test_each_quorum_has_its_own_table():
    in_front_of_kafka = replace(SOUND, quorum="kafka")
    work = replace(SOUND, fault=replace(ONE_ZNODE, is_load=True), cpu_seconds=0.8)
    own, kafka = table([SOUND, in_front_of_kafka, work]).split("\n\nkafka:")
    assert own.startswith("own:\n\n| fault | in step after | at most |")
    assert "| 8.0 %, which is work |" in own
    assert kafka.count("| nothing |") == 1


@pytest.mark.parametrize(
    ("kind", "worse"),
    [
        ({"brokers_go": True}, {"gone": 1.0}),
        ({"one_znode": False}, {"behind": 1.0}),
        ({"is_load": True}, {"cpu_seconds": 5.0}),
        ({"mark_seconds": 6.0}, {"converged": 5.9}),
    ],
)
def test_differences_caused_by_fault_are_allowed(kind, worse):
    assert not replace(SOUND, **worse).ok
    assert replace(SOUND, fault=replace(ONE_ZNODE, **kind), **worse).ok


def test_pulse_is_late_until_it_or_successor_appears():
    """A later pulse also proves an earlier one, and a response may arrive after the znode was written."""
    acked = {1: 10.0, 2: 11.0, 3: 12.0, 4: 13.0}
    assert sorted(Sight({1: 10.2, 3: 11.9}).behind(acked)) == pytest.approx(
        [0.0, 0.2, 0.9, float("inf")]
    )
    assert Sight().behind({}) == []


OF_A_PULSE = ReportedDifference("different", EntityConfig.topic_path(PULSE))
OF_ANOTHER = ReportedDifference("different", EntityConfig.topic_path(BAD))


@pytest.mark.parametrize(
    ("before", "differences", "in_step"),
    [
        (Migration(offset=7), (), True),
        (Migration(offset=7), (OF_A_PULSE,), True),
        (Migration(offset=7), (OF_A_PULSE, OF_ANOTHER), False),
        (Migration(offset=6), (), False),
        (Migration(offset=7, dirty=True), (), False),
    ],
)
def test_pulse_during_comparison_is_no_difference(before, differences, in_step):
    report = VerifyReport(9, 8, 0, 0, settled=False, differences=differences)
    assert in_step_but_for_pulses(report, before, newest=7).in_step is in_step


def test_each_fault_has_name_and_one_line_story():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.what and "\n" not in fault.what for fault in FAULTS)

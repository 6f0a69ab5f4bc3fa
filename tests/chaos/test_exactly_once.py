"""The checker of exactly-once finds the errors in broken histories, and none in correct ones."""

from dataclasses import replace

import pytest

from tests.chaos.exactly_once import ABORTED, Verdict, judge

SOUND = Verdict(0, 0, 0, 0, 0, 0)
OUTPUT = {(0, 0): b"a", (0, 2): b"b", (1, 0): b"c"}
ALONG = [((0, 0), b"a"), ((1, 0), b"c"), ((0, 2), b"b")]
SENT = [b"a", b"b", b"c", b"never arrived"]
ACKED = [b"a", b"b", b"c"]


def test_correct_history_has_no_errors():
    verdict = judge(SENT, ACKED, OUTPUT, ALONG)
    assert (verdict, verdict.ok) == (SOUND, True)


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ({"acked": [*ACKED, b"d"], "sent": [*SENT, b"d"]}, {"lost": 1}),
        ({"output": {**OUTPUT, (1, 5): b"a"}}, {"doubled": 1}),
        ({"output": {**OUTPUT, (1, 5): ABORTED + b"x"}}, {"aborted_seen": 1}),
        ({"along": [*ALONG, ((1, 5), ABORTED + b"x")]}, {"aborted_seen": 1, "unstable": 1}),
        ({"output": {**OUTPUT, (1, 5): b"z"}}, {"invented": 1}),
        ({"along": [*ALONG[:2], ((0, 2), b"c")]}, {"unstable": 1}),
        ({"along": [*ALONG, ((1, 9), b"a")]}, {"unstable": 1}),
        ({"along": [*ALONG, ((0, 2), b"b")]}, {"out_of_order": 1}),
        ({"along": [ALONG[2], ALONG[1], ALONG[0]]}, {"out_of_order": 1}),
    ],
)
def test_broken_history_is_reported(broken, found):
    history = {"sent": SENT, "acked": ACKED, "output": OUTPUT, "along": ALONG, **broken}
    verdict = judge(history["sent"], history["acked"], history["output"], history["along"])
    assert verdict == replace(SOUND, **found)
    assert not verdict.ok

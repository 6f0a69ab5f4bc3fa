from tests.mutation.planted.limits import ABOVE_TOP, TOP, Span, counted, half_held, held, noted


def test_held():
    assert [held(value) for value in (2, 3, 4)] == [2, 3, 3]
    assert held(9) == TOP


def test_half_held():
    assert [half_held(1), half_held(9)] == ["little", "much"]


def test_counted():
    assert [counted(end) for end in (0, 5)] == [0, 5]


def test_above():
    assert [ABOVE_TOP(value) for value in (2, 3, 4)] == [False, False, True]


def test_noted():
    notes = []
    with noted(notes):
        assert notes == ["in"]
    assert notes == ["in", "out"]


async def test_span():
    assert Span(1, 1).is_empty
    assert not Span(1, 2).is_empty
    assert await Span(1, 3).last() == 2

"""The slow start of the relay, without a network."""

from __future__ import annotations

from trilane.lab.network.relay_window import INITIAL, Window

LIMIT = 1 << 20


def flights(window: Window, began: float, count: int) -> list[int]:
    """What leaves in each of so many round trips of 1 s, if there is always more to send."""
    sizes = []
    for number in range(count):
        at = began + number
        sizes.append(window.room(at))
        window.leave(at, sizes[-1])
        assert window.room(at + 0.5) == (0 if sizes[-1] < LIMIT else LIMIT)
        if sizes[-1] < LIMIT:
            assert window.next_room() == at + 1
    return sizes


def test_it_doubles_every_round_trip_up_to_the_limit() -> None:
    doubling = [INITIAL << number for number in range(7)]
    assert flights(Window(1.0, LIMIT), 0.0, 9) == [*doubling, LIMIT, LIMIT]


def test_acknowledgements_come_one_by_one() -> None:
    window = Window(1.0, LIMIT)
    window.leave(0.0, 10_000)
    window.leave(0.2, INITIAL - 10_000)
    assert window.room(0.9) == 0
    assert window.next_room() == 1.0
    # What was acknowledged may leave again, and as much once more.
    assert window.room(1.0) == 20_000
    assert window.room(1.2) == 2 * INITIAL


def test_a_window_that_is_not_used_does_not_grow() -> None:
    window = Window(1.0, LIMIT)
    for number in range(1000):
        window.leave(float(number), 300)
        assert window.room(number + 0.5) == INITIAL - 300
    assert window.room(1000.0) == INITIAL


def test_idleness_shrinks_it() -> None:
    window = Window(1.0, LIMIT)
    assert flights(window, 0.0, 5)[-1] == 16 * INITIAL
    # It had become 32 times the initial one; a timeout is 1.2 s.
    assert window.room(5.1) == 32 * INITIAL
    assert window.room(4.0 + 1.3) == 16 * INITIAL
    assert window.room(3600.0) == INITIAL
    assert flights(window, 3600.0, 3) == [INITIAL, 2 * INITIAL, 4 * INITIAL]


def test_an_open_window_shrinks_too() -> None:
    window = Window(1.0, LIMIT)
    assert flights(window, 0.0, 9)[-1] == LIMIT
    assert window.room(3600.0) == INITIAL

"""Rows left out: every change can be undone and redone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.state import History, parse_rows


def test_leave_out_put_back_undo_redo():
    one = History().leave_out([3, 1], "odd")
    two = one.leave_out([1, 7], "even")
    assert two.now == ((1, "odd"), (3, "odd"), (7, "even"))
    assert two.put_back([3]).rows == [1, 7]
    assert two.undo().now == one.now
    assert two.undo().undo().now == ()
    assert two.undo().redo() == two
    assert two.undo().leave_out([9], "").redo().rows == [1, 3, 9]
    assert one.leave_out([1], "again") is one
    assert History().undo() == History().redo() == History()


@given(st.lists(st.tuples(st.booleans(), st.sets(st.integers(1, 9), min_size=1)), max_size=12))
def test_undo_leads_back_through_every_state(changes):
    history, seen = History(), [()]
    for out, rows in changes:
        history = history.leave_out(rows, "x") if out else history.put_back(rows)
        if history.now != seen[-1]:
            seen.append(history.now)
    for state in reversed(seen[:-1]):
        history = history.undo()
        assert history.now == state
    for state in seen[1:]:
        history = history.redo()
        assert history.now == state


def test_rows_as_people_write_them():
    assert parse_rows("3, 7-9;1 ,7", 9) == [1, 3, 7, 8, 9]
    assert parse_rows("2 – 3", 9) == [2, 3]
    assert parse_rows(" ,", 9) == []
    for bad in ("0", "10", "5-3", "x", "1 2", "-1", "9999999999"):
        with pytest.raises(ValueError, match="numbers from 1 to 9"):
            parse_rows(f"1, {bad}", 9)

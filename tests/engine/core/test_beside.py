"""The thread beside the caller: order, errors where they belong, and an end that waits."""

from __future__ import annotations

import threading

import pytest

from engine.core.beside import Beside


@pytest.mark.parametrize("on", [True, False])
def test_items_come_in_order_and_work_is_done_in_order(on):
    done = []
    with Beside(on=on) as beside:
        for n in beside.ahead(range(20), lambda n: n * n):
            beside.later(lambda n=n: done.append(n))
    assert done == [n * n for n in range(20)]


def test_the_next_item_is_prepared_while_the_caller_has_this_one():
    second = threading.Event()

    def prepare(n):
        if n == 1:
            second.set()
        return n

    with Beside() as beside:
        ahead = beside.ahead(range(3), prepare)
        assert next(ahead) == 0
        assert second.wait(timeout=60)
        assert list(ahead) == [1, 2]


@pytest.mark.parametrize("on", [True, False])
def test_an_error_of_preparing_comes_where_its_item_would(on):
    def prepare(n):
        if n == 2:
            raise ValueError("two")
        return n

    seen = []
    with pytest.raises(ValueError, match="two"), Beside(on=on) as beside:
        seen += [seen.append(n) for n in beside.ahead(range(5), prepare)]
    assert seen == [0, 1]


@pytest.mark.parametrize("on", [True, False])
def test_an_error_of_work_nobody_waits_for_is_raised(on):
    def fail():
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"), Beside(on=on) as beside:
        beside.later(fail)


def test_a_stop_of_the_caller_is_not_hidden_and_waits_for_the_thread():
    going, done = threading.Event(), []

    def work():
        going.wait(timeout=60)
        done.append(True)
        raise OSError("late")

    def stopped():
        with Beside() as beside:
            beside.later(work)
            going.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert done == [True]

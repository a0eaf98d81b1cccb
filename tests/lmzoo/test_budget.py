"""The stopwatch and the limits of a training."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmzoo.budget import Budget, Stopwatch
from lmzoo.errors import InputError

from .toy import Clock

pytestmark = pytest.mark.plain

seconds = st.floats(0, 1e6)


class TestStopwatch:
    @given(st.lists(st.tuples(seconds, seconds)))
    def test_it_adds_up_what_it_ran_and_nothing_else(self, spans):
        clock = Clock()
        watch = Stopwatch(clock)
        for running_s, paused_s in spans:
            with watch.running():
                clock.now_s += running_s
            clock.now_s += paused_s
        assert watch.elapsed_s == pytest.approx(sum(r for r, _ in spans), abs=1e-6)

    def test_it_can_be_read_while_it_runs(self):
        clock = Clock()
        watch = Stopwatch(clock)
        with watch.running():
            clock.now_s += 2.0
            assert watch.elapsed_s == 2.0
            clock.now_s += 1.0
        clock.now_s += 100.0
        assert watch.elapsed_s == 3.0

    def test_it_stops_when_the_block_fails(self):
        clock = Clock()
        watch = Stopwatch(clock)

        def fail():
            with watch.running():
                clock.now_s += 1.0
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        clock.now_s += 1.0
        assert watch.elapsed_s == 1.0

    def test_it_does_not_run_twice_at_once(self):
        watch = Stopwatch(Clock())
        with watch.running(), pytest.raises(RuntimeError, match="running already"), watch.running():
            pass


class TestBudget:
    def test_without_limits_it_is_never_spent(self):
        budget = Budget()
        budget.note(steps_done=10**9, epochs_done=1e9)
        assert (budget.used, budget.is_spent) == (0.0, False)

    def test_the_nearest_limit_decides(self):
        clock = Clock()
        budget = Budget(seconds=10.0, steps=100, epochs=4, watch=Stopwatch(clock))
        with budget.watch.running():
            clock.now_s = 3.0
        budget.note(steps_done=50, epochs_done=1.0)
        assert budget.used == 0.5  # 3 of 10 s, 50 of 100 steps, 1 of 4 epochs
        budget.note(steps_done=50, epochs_done=4.0)
        assert budget.is_spent

    @given(st.integers(1, 1000), st.integers(0, 5000))
    def test_the_share_used_stays_between_0_and_1(self, limit, done):
        budget = Budget(steps=limit)
        budget.note(steps_done=done, epochs_done=0.0)
        assert budget.used == min(done / limit, 1.0)
        assert budget.is_spent == (done >= limit)

    @pytest.mark.parametrize("name", ["seconds", "steps", "epochs"])
    @pytest.mark.parametrize("value", [0, -1, math.nan])
    def test_a_limit_is_above_zero(self, name, value):
        with pytest.raises(InputError, match=f"{name} of a budget must be above 0, got {value}"):
            Budget(**{name: value})

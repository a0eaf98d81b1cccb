"""Requests to end: none is lost, wherever it comes."""

from __future__ import annotations

import ctypes
import signal
import sys
import threading

import pytest

from lmzoo.cli.stopping import SignalledError, stoppable


class TestRequestsThatCompiledCodeDrops:
    """ctypes prints what is raised in a callback and goes on."""

    @staticmethod
    def called_back(number):
        @ctypes.CFUNCTYPE(None)
        def callback():
            signal.raise_signal(number)

        callback()

    def work(self, number):
        with stoppable():
            self.called_back(number)
            # a minute of work; never set
            threading.Event().wait(60)
            pytest.fail("the request was forgotten")

    @pytest.mark.parametrize(
        ("number", "wanted"), [(signal.SIGTERM, SignalledError), (signal.SIGINT, KeyboardInterrupt)]
    )
    def test_one_is_made_again_while_the_work_goes_on(self, capsys, number, wanted):
        with pytest.raises(wanted):
            self.work(number)
        assert capsys.readouterr().err == ""

    def test_one_is_kept_to_the_end_of_the_work(self):
        with pytest.raises(SignalledError), stoppable():
            self.called_back(signal.SIGTERM)

    def test_what_else_is_dropped_there_is_shown_as_ever(self, monkeypatch):
        shown = []
        monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: shown.append(unraisable.exc_type))

        @ctypes.CFUNCTYPE(None)
        def callback():
            raise ZeroDivisionError

        with stoppable():
            callback()
        assert shown == [ZeroDivisionError]

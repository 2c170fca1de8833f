"""A stop: set once, seen everywhere, and it calls whoever asked to be called."""

import threading
import time

import pytest

from paraudio.engines import Stop, Stopped


def test_a_stop_that_is_not_set_lets_everything_pass() -> None:
    stop = Stop()
    stop.check()
    stop.wait(0.001)
    assert not stop.is_set()


def test_a_stop_that_is_set_raises_wherever_it_is_looked_at() -> None:
    stop = Stop()
    stop.set()
    assert stop.is_set()
    with pytest.raises(Stopped):
        stop.check()
    with pytest.raises(Stopped):
        stop.wait(60)


def test_a_wait_ends_when_another_thread_sets_the_stop() -> None:
    stop = Stop()
    threading.Timer(0.02, stop.set).start()
    began = time.monotonic()
    with pytest.raises(Stopped):
        stop.wait(60)
    assert time.monotonic() - began < 10


def test_callbacks_run_once_in_the_thread_that_stops() -> None:
    stop, calls = Stop(), []
    with stop.calls(lambda: calls.append(threading.current_thread())):
        stop.set()
        stop.set()
    assert calls == [threading.current_thread()]


def test_a_callback_of_a_stop_that_is_set_runs_at_once() -> None:
    stop, calls = Stop(), []
    stop.set()
    with stop.calls(lambda: calls.append(1)):
        assert calls == [1]


def test_a_callback_is_not_run_after_its_block() -> None:
    stop, calls = Stop(), []
    with stop.calls(lambda: calls.append(1)):
        pass
    stop.set()
    assert calls == []


def test_several_callbacks_all_run() -> None:
    stop, calls = Stop(), []
    with stop.calls(lambda: calls.append(1)), stop.calls(lambda: calls.append(2)):
        stop.set()
    assert calls == [1, 2]

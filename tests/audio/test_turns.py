"""Threads in turns: never two at once, in order, a slice each."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from tests.audio.containers import container
from tests.audio.sounds import tone

from paraudio.audio import _demux, decode
from paraudio.audio._turns import Turns
from paraudio.errors import InvalidRequestError


@contextmanager
def running(*jobs: Callable[[], None]) -> Iterator[None]:
    """Threads that are joined at the end."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()


def until_waiting(turns: Turns, count: int) -> None:
    """Wait until so many threads wait for their turn."""
    ends = time.monotonic() + 60
    while turns.waiting != count:
        assert time.monotonic() < ends
        time.sleep(0.001)


@pytest.fixture
def restless() -> Iterator[None]:
    """An interpreter that changes its thread at nearly every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_no_two_threads_ever_work_at_once() -> None:
    turns = Turns(slice_s=0.0)
    inside: list[int] = []
    most = 0

    def work() -> None:
        nonlocal most
        for _ in range(30):
            with turns.turn():
                for _ in range(20):
                    inside.append(1)
                    most = max(most, len(inside))
                    inside.pop()
                    turns.offer()

    with running(*[work] * 6):
        pass
    assert most == 1
    assert turns.waiting == 0


def test_who_came_first_works_first() -> None:
    turns = Turns()
    order: list[int] = []

    def work(number: int) -> None:
        with turns.turn():
            order.append(number)

    with turns.turn():
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for number, thread in enumerate(threads):
            thread.start()
            until_waiting(turns, number + 1)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3]


def test_a_turn_is_passed_on_when_its_slice_is_over_and_taken_again_behind_the_others() -> None:
    now = 0.0
    turns = Turns(slice_s=1.0, clock=lambda: now)
    order: list[str] = []

    def other() -> None:
        with turns.turn():
            order.append("other")

    with turns.turn(), running(other):
        until_waiting(turns, 1)
        now = 0.9
        turns.offer()
        order.append("the same slice")
        now = 1.0
        turns.offer()
        order.append("the next slice")
    assert order == ["the same slice", "other", "the next slice"]


def test_a_slice_goes_on_as_long_as_nobody_waits() -> None:
    turns = Turns(slice_s=0.0)
    with turns.turn():
        turns.offer()
        turns.offer()
    assert turns.waiting == 0


def test_who_has_no_turn_offers_nothing() -> None:
    turns = Turns(slice_s=0.0)
    order: list[str] = []

    def other() -> None:
        with turns.turn():
            order.append("other")

    def outsider() -> None:
        turns.offer()
        order.append("outsider")

    waits = threading.Thread(target=other)
    with turns.turn():
        waits.start()
        until_waiting(turns, 1)
        with running(outsider):
            pass
        assert order == ["outsider"]
        assert turns.waiting == 1
    waits.join()


class Interrupted(BaseException):
    """What a signal's handler raises."""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A signal that is raised in the main thread as Ctrl-C is."""

    def raise_it(signum: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, raise_it)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("inside", [False, True], ids=["before", "between slices"])
def test_a_wait_that_is_interrupted_keeps_nobody_from_working(*, inside: bool) -> None:
    turns = Turns(slice_s=0.0)
    entered = threading.Event()
    main = threading.main_thread().ident
    assert main is not None
    interrupted = main

    def other() -> None:
        with turns.turn():
            entered.set()
            until_waiting(turns, 1)
            signal.pthread_kill(interrupted, signal.SIGUSR1)

    thread = threading.Thread(target=other)

    def wait() -> None:
        if not inside:
            thread.start()
            entered.wait()
        with turns.turn():
            thread.start()
            until_waiting(turns, 1)
            turns.offer()

    with pytest.raises(Interrupted):
        wait()
    thread.join()
    free: list[bool] = []

    def work() -> None:
        with turns.turn():
            free.append(True)

    later = threading.Thread(target=work, daemon=True)
    later.start()
    later.join(60)
    assert free
    assert turns.waiting == 0


def test_a_turn_that_fails_is_passed_on() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.turn():
        raise ZeroDivisionError
    with turns.turn():
        pass


FIRST_INSIDE = 3
"""Which look at the limits is the first in a turn: behind those at the file and at its head."""

MP3 = container("mp3", "libmp3lame", tone(3.0, 48_000), rate=48_000)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    """Those of ffmpeg's libraries, with slices that are over at once."""
    new = Turns(slice_s=0.0)
    monkeypatch.setattr(_demux, "_TURNS", new)
    return new


def test_a_file_is_decoded_in_turns(turns: Turns) -> None:
    done: list[int] = []

    def read() -> None:
        done.append(len(decode(MP3).samples))

    reader = threading.Thread(target=read)
    with turns.turn():
        reader.start()
        until_waiting(turns, 1)
        assert not done
    reader.join()
    assert done == [len(decode(MP3).samples)]


def test_a_file_lets_another_in_between_its_packets(turns: Turns) -> None:
    looks = 0
    seen: list[int] = []
    other: list[threading.Thread] = []

    def count() -> None:
        nonlocal looks
        looks += 1

    def check() -> None:
        seen.append(looks)
        if turns.waiting == 0 and len(seen) == FIRST_INSIDE:
            other.append(threading.Thread(target=decode, args=(MP3,), kwargs={"check": count}))
            other[0].start()
            until_waiting(turns, 1)
            seen[-1] = looks

    decode(MP3, check=check)
    other[0].join()
    assert seen[FIRST_INSIDE] > seen[FIRST_INSIDE - 1] > 0


def test_a_film_is_left_between_its_pictures(turns: Turns) -> None:
    looks = 0

    def count() -> None:
        nonlocal looks
        looks += 1

    made = container("matroska", "pcm_s16le", tone(0.1), picture=True, pictures=800)
    assert len(decode(made, check=count).samples) == len(tone(0.1))
    assert looks > 800 // 16


def test_a_file_is_left_while_it_is_searched(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    offers = 0
    offer = turns.offer

    def count() -> None:
        nonlocal offers
        offers += 1
        offer()

    monkeypatch.setattr(turns, "offer", count)
    half = len(MP3) // 2
    decode(MP3)
    before, offers = offers, 0
    with suppress(InvalidRequestError):  # it may miss too much
        decode(MP3[:half] + bytes(8 << 20) + MP3[half:])
    assert offers > before + 8

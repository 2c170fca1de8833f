"""The wire: what is sent arrives, arrays included, and no descriptor stays behind."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from paraudio.engines import Audio, Job
from paraudio.engines.isolation._frames import receive_message, send_message
from paraudio.engines.worker._messages import Fault, packed, unpacked
from paraudio.engines.worker._reply import Done, Failed, attempt
from paraudio.engines.worker._wire import SHARE_FROM, dump, receive, send
from paraudio.errors import BackendError, InvalidRequestError

LARGE = SHARE_FROM // 4
DESCRIPTORS = Path("/proc/self/fd")


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def open_descriptors() -> int:
    return len(list(DESCRIPTORS.iterdir()))


def sound(frames: int) -> Job:
    samples = np.arange(frames, dtype=np.float32)
    return Job(task="asr", text="what", audio=Audio(samples, 16_000), options={"a": 1})


def equal(one: object, other: object) -> bool:
    assert isinstance(one, Job)
    assert isinstance(other, Job)
    assert one.audio is not None
    assert other.audio is not None
    return (
        np.array_equal(one.audio.samples, other.audio.samples)
        and one.audio.samples.dtype == other.audio.samples.dtype
        and (one.text, one.options) == (other.text, other.options)
    )


@pytest.mark.parametrize(
    "frames", [0, 1, SHARE_FROM // 4 - 1, SHARE_FROM // 4, SHARE_FROM // 4 + 12_345]
)
async def test_a_job_with_sound_arrives_whole_both_ways(
    frames: int, pair: tuple[socket.socket, socket.socket]
) -> None:
    before = open_descriptors()
    ours, theirs = pair
    ours.setblocking(False)
    control = trio.socket.from_stdlib_socket(ours)
    job = sound(frames)

    def echo() -> None:
        for _ in range(2):
            send(theirs, receive(theirs))

    thread = threading.Thread(target=echo)
    thread.start()
    for _ in range(2):
        await send_message(control, job)
        assert equal(await receive_message(control), job)
    thread.join()
    assert open_descriptors() == before


def test_large_sound_goes_beside_the_socket_and_can_be_written_to(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    job = sound(LARGE)  # far more than a socket buffers: inline, this send would block
    send(ours, job)
    send(ours, job)
    one, other = receive(theirs), receive(theirs)
    assert isinstance(one, Job)
    assert one.audio is not None
    one.audio.samples[0] = 5.0
    assert equal(other, job)


def test_without_memory_files_large_sound_goes_through_the_socket(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    ours, theirs = pair
    job = sound(LARGE)
    thread = threading.Thread(target=send, args=(ours, job))
    thread.start()
    assert equal(receive(theirs), job)
    thread.join()


def test_a_system_that_is_out_of_descriptors_still_sends(
    pair: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", refuse)
    ours, theirs = pair
    thread = threading.Thread(target=send, args=(ours, sound(LARGE)))
    thread.start()
    assert equal(receive(theirs), sound(LARGE))
    thread.join()


@settings(max_examples=50)
@given(st.lists(st.one_of(st.text(), st.binary(), st.integers(), st.floats(allow_nan=False))))
def test_any_plain_value_arrives(value: list[object]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, value)
        assert receive(theirs) == value


def test_the_end_of_the_other_side_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    ours.close()
    with pytest.raises(EOFError):
        receive(theirs)


async def test_the_end_of_the_other_side_is_told_midway(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    theirs.send(b"\x01")
    theirs.close()
    ours.setblocking(False)
    with pytest.raises(EOFError):
        await receive_message(trio.socket.from_stdlib_socket(ours))


def test_what_cannot_be_pickled_is_not_sent_at_all(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    with pytest.raises((AttributeError, TypeError)):
        send(ours, lambda: None)
    send(ours, "next")
    assert receive(theirs) == "next"


def test_buffers_are_not_copied_before_they_are_framed() -> None:
    job = sound(1000)
    dumped = dump(job)
    assert job.audio is not None
    assert np.shares_memory(np.frombuffer(dumped.buffers[0], np.float32), job.audio.samples)


def test_an_error_travels_with_its_field_and_its_trace() -> None:
    reply = attempt(lambda: int("inner"), "call")
    fault = packed(reply)
    assert isinstance(fault, Fault)
    back = unpacked(fault)
    assert isinstance(back, Failed)
    assert type(back.error) is BackendError
    assert back.error.message.startswith("call failed: ValueError: ")
    assert "ValueError: invalid literal" in str(back.error.__cause__)
    refusal = unpacked(packed(Failed(InvalidRequestError("no", param="text"), touched=False)))
    assert isinstance(refusal, Failed)
    assert (refusal.error.param, refusal.touched, refusal.error.__cause__) == ("text", False, None)


def test_a_value_travels_as_it_is() -> None:
    assert unpacked(packed(Done(5, touched=True))) == Done(5, touched=True)

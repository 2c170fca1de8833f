"""A log whose reader stops: nobody waits for it, what is lost is counted, the rest comes."""

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from paraudio.cli._log_writer import LogWriter

PATIENCE_S = 30.0
SMALL = 4096


class Pipe:
    """A pipe that holds little, and a logger that writes into it."""

    def __init__(self, most_bytes: int) -> None:
        self.reads, self.writes = os.pipe()
        fcntl.fcntl(self.writes, fcntl.F_SETPIPE_SZ, SMALL)
        self.handler = LogWriter(self.writes, most_bytes=most_bytes)
        self.logger = logging.Logger("test")
        self.logger.addHandler(self.handler)

    def read_all(self) -> list[str]:
        """Everything up to the end of the last writer."""
        with open(self.reads, "rb", closefd=False) as file:
            return file.read().decode().splitlines()

    def shut(self) -> None:
        """Close the writing end."""
        with suppress(OSError):
            os.close(self.writes)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe(most_bytes=10_000)
    yield pipe
    pipe.handler.close()
    pipe.shut()
    os.close(pipe.reads)


def test_lines_come_whole_and_in_order(pipe: Pipe) -> None:
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.extend(pipe.read_all()))
    reader.start()
    for number in range(200):
        pipe.logger.warning("line %d of umlauts: ä", number)
    pipe.handler.flush()
    pipe.handler.close()
    pipe.shut()
    reader.join(PATIENCE_S)
    assert heard == [f"line {number} of umlauts: ä" for number in range(200)]


def test_nobody_waits_for_a_reader_that_has_stopped_and_what_is_lost_is_counted(
    pipe: Pipe,
) -> None:
    lines = 2000
    for number in range(lines):
        pipe.logger.warning("%06d %s", number, "x" * 92)
    began = time.monotonic()
    pipe.handler.flush()
    assert time.monotonic() - began < PATIENCE_S / 2, "the end does not wait for it either"
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.extend(pipe.read_all()))
    reader.start()
    # Once something is read again, there is room for what comes, and the losses are told.
    deadline = time.monotonic() + PATIENCE_S
    while pipe.handler._waiting and time.monotonic() < deadline:
        time.sleep(0.01)
    pipe.logger.warning("afterwards")
    pipe.handler.close()
    pipe.shut()
    reader.join(PATIENCE_S)
    told = [line for line in heard if "lines of the log were dropped: nobody read it" in line]
    kept = [line for line in heard if line not in told][:-1]
    assert sum(int(line.split()[0]) for line in told) + len(kept) == lines
    assert kept == sorted(kept)
    assert {len(line) for line in kept} == {99}, "no line is cut"
    assert len(kept) > 100, "what was put down before it stopped is there"
    assert heard[-1] == "afterwards"


def test_a_line_that_is_too_long_by_itself_is_written(pipe: Pipe) -> None:
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.extend(pipe.read_all()))
    reader.start()
    pipe.logger.warning("y" * 50_000)
    pipe.handler.close()
    pipe.shut()
    reader.join(PATIENCE_S)
    assert heard == ["y" * 50_000]


def test_a_reader_that_is_gone_is_nobodys_trouble(pipe: Pipe) -> None:
    os.close(pipe.reads)
    pipe.reads = os.open(os.devnull, os.O_RDONLY)
    for _ in range(10):
        pipe.logger.error("to nobody")
    pipe.handler.flush()
    assert pipe.handler._waiting == 0


def test_a_line_that_cannot_be_formatted_is_told(pipe: Pipe) -> None:
    pipe.logger.warning("%d", "no number")
    pipe.handler.close()
    pipe.shut()
    (line,) = pipe.read_all()
    assert "a line of test could not be formatted: '%d': TypeError" in line


def test_the_thread_ends_with_its_handler(pipe: Pipe) -> None:
    pipe.handler.close()
    pipe.handler._thread.join(PATIENCE_S)
    assert not pipe.handler._thread.is_alive()

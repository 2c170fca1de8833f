"""A folder for temporary files that is full, or of no use, is told in words and leaves nothing."""

import io
import logging
import tempfile
from functools import partial
from pathlib import Path
from typing import IO

import pytest
from tests.http.client import form
from tests.http.conftest import World
from trio.testing import MockClock

from paraudio.errors import InsufficientStorageError, StorageError
from paraudio.http import _multipart
from paraudio.http._multipart import FormParser, Upload, boundary_of

TRANSCRIBE = "/v1/audio/transcriptions"
LARGE = b"x" * 200_000


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """Every file of an upload lies on a device that is full; the list has those files."""
    made: list[IO[bytes]] = []

    def new_file() -> IO[bytes]:
        made.append(io.BufferedRandom(io.FileIO("/dev/full", "r+b"), 4096))
        return made[-1]

    monkeypatch.setattr(_multipart, "MEMORY_BYTES", 1000)
    monkeypatch.setattr(_multipart, "_new_file", new_file)
    return made


@pytest.mark.parametrize("size", [2000, 200_000], ids=["parsed inline", "parsed in a thread"])
async def test_a_full_folder_is_a_507_that_names_it_and_is_not_tried_again(
    world: World,
    autojump_clock: MockClock,
    full: list[IO[bytes]],
    caplog: pytest.LogCaptureFixture,
    size: int,
) -> None:
    body, headers = form(("model", None, b"ears"), ("file", "a.wav", LARGE[:size]))
    reply = await world.client.post(TRANSCRIBE, body, headers)
    error = reply.error()
    assert (reply.status, error["type"], error["code"]) == (507, "server_error", "no_space")
    assert tempfile.gettempdir() in error["message"]
    assert "TMPDIR" in error["message"]
    assert reply.headers["x-should-retry"] == "false"
    assert "retry-after" not in reply.headers
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.exc_info for record in told] == [None]
    assert tempfile.gettempdir() in told[0].getMessage()
    assert full
    assert all(file.closed for file in full), "nothing of the upload stays"
    assert world.idle()


@pytest.mark.usefixtures("autojump_clock")
@pytest.mark.parametrize("folder", ["missing", "file"])
async def test_a_folder_that_cannot_be_written_to_is_told_without_a_traceback(
    world: World,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: str,
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(_multipart, "MEMORY_BYTES", 1000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / folder))
    body, headers = form(("model", None, b"ears"), ("file", "a.wav", LARGE))
    reply = await world.client.post(TRANSCRIBE, body, headers)
    assert (reply.status, reply.error()["code"]) == (500, "storage_failed")
    assert str(tmp_path / folder) in reply.error()["message"]
    assert reply.headers["x-should-retry"] == "false"
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.exc_info for record in told] == [None]


def test_where_no_folder_can_be_found_at_all_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    monkeypatch.setattr(_multipart, "_new_file", nowhere)
    with pytest.raises(StorageError, match="No usable temporary directory"):
        Upload("file", "a").to_disk()


def test_what_is_only_refused_when_the_buffer_is_written_is_told_too(full: list[IO[bytes]]) -> None:
    body, headers = form(("file", "a", b"x" * 1100))
    parser = FormParser(boundary_of(headers["content-type"]))
    parser.feed(body)
    read = parser.finish()
    with pytest.raises(InsufficientStorageError):
        read.files[0].view()
    read.close()
    assert full[0].closed


def test_files_of_uploads_have_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_multipart, "_new_file", partial(tempfile.TemporaryFile, dir=tmp_path))
    upload = Upload("file", "a")
    upload.write(LARGE)
    upload.to_disk()
    assert bytes(upload.view()) == LARGE
    assert list(tmp_path.iterdir()) == []
    upload.close()

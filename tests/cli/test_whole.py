"""A file is written whole or not at all, whatever ends the writing."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_results import SPOKEN, spec

from paraudio.cli._results import Done, deliver
from paraudio.cli._signals import Interrupted
from paraudio.cli._whole import check_place, write_whole
from paraudio.errors import BackendError

GOOD = b"the good one"


def full(_descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def deliver_to(path: Path, done: Done = SPOKEN) -> None:
    deliver(done, spec("tts"), output=str(path), as_json=False)


def test_a_full_disk_leaves_the_file_that_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(GOOD)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackendError, match=r"a\.wav cannot be written: No space left on device"):
        deliver_to(path)
    assert path.read_bytes() == GOOD
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_no_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackendError):
        deliver_to(tmp_path / "a.wav")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_is_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(number))
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(Interrupted) as caught:
            write_whole(tmp_path / "a.wav", b"new")
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert caught.value.code == 128 + number
    assert list(tmp_path.iterdir()) == []


def test_a_signal_that_somebody_ignores_stays_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(signal.SIGHUP))
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        write_whole(tmp_path / "a.wav", b"new")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (tmp_path / "a.wav").read_bytes() == b"new"


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(GOOD)
    path.chmod(0o640)
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_that_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a.wav", b"new")
    finally:
        os.umask(before)
    assert (tmp_path / "a.wav").stat().st_mode & 0o777 == 0o640


def test_a_link_goes_on_to_lead_to_its_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file, link = tmp_path / "folder" / "a.wav", tmp_path / "link.wav"
    link.symlink_to("folder/a.wav")
    for data in (b"first", b"second"):
        write_whole(link, data)
        assert link.is_symlink()
        assert file.read_bytes() == data


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "a.wav"
    os.mkfifo(pipe)
    came: list[bytes] = []
    reader = threading.Thread(target=lambda: came.append(pipe.read_bytes()))
    reader.start()
    write_whole(pipe, b"new")
    reader.join(timeout=30)
    assert came == [b"new"]
    assert pipe.is_fifo()


def test_a_file_that_is_open_is_written_through_what_is_open(tmp_path: Path) -> None:
    """What ``/dev/stdout`` is where the shell sent the output into a file."""
    with (tmp_path / "out").open("w+b") as out:
        link = tmp_path / "a.wav"
        link.symlink_to(f"/dev/fd/{out.fileno()}")
        write_whole(link, b"new")
        assert out.read() == b"new"
    assert sorted(tmp_path.iterdir()) == [link, tmp_path / "out"]


@pytest.mark.parametrize("name", ["ring", "ring/a.wav"])
def test_a_ring_of_links_cannot_be_written(tmp_path: Path, name: str) -> None:
    (tmp_path / "ring").symlink_to("ring")
    with pytest.raises(OSError, match="Too many levels of symbolic links"):
        write_whole(tmp_path / name, b"new")


def refuse_new(real: Callable[..., int]) -> Callable[..., int]:
    def refusing(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_EXCL:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, mode)

    return refusing


def test_a_folder_that_takes_no_new_file_does_not_keep_an_old_one_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(GOOD)
    monkeypatch.setattr(os, "open", refuse_new(os.open))
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(PermissionError):
        write_whole(tmp_path / "b.wav", b"new")


def test_a_file_that_may_not_be_written_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(GOOD)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(PermissionError):
        write_whole(path, b"new")
    assert path.read_bytes() == GOOD


def test_what_cannot_be_written_is_known_before_there_is_anything_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder.wav").mkdir()
    (tmp_path / "kept.wav").write_bytes(GOOD)
    with pytest.raises(IsADirectoryError):
        check_place(tmp_path / "folder.wav")
    with pytest.raises(FileNotFoundError, match="there is no such folder"):
        check_place(tmp_path / "none" / "a.wav")
    check_place(tmp_path / "a.wav")
    check_place(tmp_path / "kept.wav")
    check_place(Path("/dev/stdout"))
    closed = {tmp_path}

    def allows(place: Path, mode: int) -> bool:
        assert mode == os.W_OK
        return place not in closed

    monkeypatch.setattr(os, "access", allows)
    check_place(tmp_path / "kept.wav")  # a file may be written in a folder that may not
    with pytest.raises(PermissionError):
        check_place(tmp_path / "a.wav")
    closed.add(tmp_path / "kept.wav")
    with pytest.raises(PermissionError):
        check_place(tmp_path / "kept.wav")
    assert (tmp_path / "kept.wav").read_bytes() == GOOD

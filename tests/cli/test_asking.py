"""What ``paraudio run`` refuses before it touches a model."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from paraudio.audio import FORMATS

Cli = Callable[..., Result]

SPEAK = ("run", "--model", "piper-joe")
HEAR = ("run", "--model", "pocketsphinx-en")


def test_help_lists_every_ending_of_a_sound_file(cli: Cli) -> None:
    text = " ".join(cli("run", "--help").stdout.split())
    assert ".aac" in text
    *most, last = (f".{name}" for name in FORMATS)
    assert f"Where speech goes: a {', '.join(most)} or {last} file; -" in text


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("run",), "Missing option '-m' / '--model'"),
        (("run", "--model", "piper-jo"), "did you mean 'piper-joe'?"),
        (SPEAK, "piper-joe (tts) needs --text or --text-file"),
        ((*SPEAK, "--text", " \n"), "needs a text with something in it"),
        ((*SPEAK, "--text", "hi"), "needs -o FILE.wav"),
        ((*SPEAK, "--text", "hi", "-o", "a.mp9"), "-o must end in one of .wav, .mp3"),
        ((*SPEAK, "--text", "hi", "--text-file", "-"), "--text or --text-file, not both"),
        ((*SPEAK, "--text", "-", "-o", "a.wav"), "--text-file - reads it from standard input"),
        (
            (*SPEAK, "--text", "hi", "-o", "none/a.wav"),
            "none/a.wav cannot be written: there is no such folder",
        ),
        (
            (*SPEAK, "--text", "hi", "-o", "~nobody.here/a.wav"),
            "~nobody.here/a.wav cannot be written",
        ),
        (("run", "--model", "~nobody.here/a.onnx"), "no file or folder ~nobody.here/a.onnx"),
        ((*SPEAK, "--text-file", "none.txt"), "--text-file: none.txt cannot be read: No such file"),
        ((*SPEAK, "--text-file", "-"), "--text-file: - is not UTF-8 text (byte 0)"),
        ((*SPEAK, "--text", "hi", "-o", "a.wav", "--audio", "-"), "takes no --audio"),
        ((*SPEAK, "--text", "hi", "-o", "a.wav", "--speed", "x"), "'x' is not a valid float"),
        ((*SPEAK, "--text", "hi", "-o", "-", "--json"), "both to standard output"),
        ((*SPEAK, "--text", "hi", "-O", "x"), "--option must be KEY=VALUE, not x"),
        ((*SPEAK, "--text", "hi", "--seed", "-1"), "--seed must be a whole number from 0"),
        ((*SPEAK, "--text", "hi", "--seed", str(2**64)), "--seed must be a whole number from 0"),
        (HEAR, "pocketsphinx-en (asr) needs --audio"),
        ((*HEAR, "--audio", "-", "--text", "hi"), "takes no text"),
        ((*HEAR, "--audio", "-", "-o", "a.wav"), "makes no sound for -o"),
        ((*HEAR, "--audio", "none.wav"), "--audio: none.wav cannot be read"),
        ((*HEAR, "--audio", "~nobody.here/a.wav"), "--audio: ~nobody.here/a.wav cannot be read"),
        ((*SPEAK, "--config", "none.json"), "there is no such file"),
    ],
)
def test_what_does_not_fit_ends_with_2_and_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], why: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli(*args, input=b"\xff")
    assert result.exit_code == 2, result.stderr
    assert result.stdout == ""
    assert why in result.stderr
    assert result.stderr.splitlines()[0].startswith("error: ")
    assert list(tmp_path.iterdir()) == []

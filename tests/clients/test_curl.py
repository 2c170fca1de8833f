"""curl in its less usual ways: waiting for leave to send, sending from a pipe, HTTP/2."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.cases.conftest import SPEECH, WORDS
from tests.clients.conftest import LONG, Seen

pytestmark = [
    pytest.mark.process,
    pytest.mark.models,
    pytest.mark.skipif(shutil.which("curl") is None, reason="the command curl is not installed"),
]

CURL = shutil.which("curl") or "curl"
HELLO = json.dumps({"model": "voice", "input": "Good morning.", "response_format": "wav"})


def curl(*words: str, given: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    """What it printed, and what it told of the exchange."""
    done = subprocess.run(
        [CURL, "-sS", "-v", "--max-time", "60", "--noproxy", "*", *words],
        input=given,
        capture_output=True,
        check=False,
    )
    told = done.stderr.decode(errors="replace")
    assert done.returncode == code, told
    return done.stdout, told


def test_a_body_is_sent_when_the_server_says_so(seen: Seen, tmp_path: Path) -> None:
    file = tmp_path / "body.json"
    file.write_text(HELLO)
    sound, told = curl(
        *("-H", "Expect: 100-continue", "--expect100-timeout", "30"),
        *("-H", "Content-Type: application/json", "-d", f"@{file}"),
        f"{seen.served.url}{SPEECH}",
    )
    assert "< HTTP/1.1 100" in told
    assert sound.startswith(b"RIFF")


def test_a_body_that_is_refused_is_never_sent(seen: Seen, tmp_path: Path) -> None:
    file = tmp_path / "large"
    with file.open("wb") as hole:
        hole.truncate(2**31 + 1)
    answer, told = curl(
        *("-H", "Expect: 100-continue", "--expect100-timeout", "30", "-X", "POST"),
        *("-H", "Content-Type: application/json", "-T", str(file)),
        f"{seen.served.url}{SPEECH}",
    )
    assert "< HTTP/1.1 413" in told
    assert "< HTTP/1.1 100" not in told
    assert json.loads(answer)["error"]["code"] == "payload_too_large"


def test_a_body_comes_from_a_pipe_in_pieces_of_no_declared_length(seen: Seen) -> None:
    sound, told = curl(
        *("-T", "-", "-X", "POST", "-H", "Content-Type: application/json"),
        f"{seen.served.url}{SPEECH}",
        given=HELLO.encode(),
    )
    assert "> Transfer-Encoding: chunked" in told
    assert sound.startswith(b"RIFF")


@pytest.mark.parametrize("way", ["--http2-prior-knowledge", "--http1.0", "--http1.1"])
def test_each_version_gets_the_same_sound(seen: Seen, way: str) -> None:
    sound, told = curl(way, "-d", HELLO, f"{seen.served.url}{SPEECH}")
    assert sound.startswith(b"RIFF")
    wanted = {"--http2-prior-knowledge": "< HTTP/2 200", "--http1.0": "< HTTP/1."}
    assert wanted.get(way, "< HTTP/1.1 200") in told


@pytest.mark.parametrize("way", ["--http2-prior-knowledge", "--http1.1"])
def test_an_upload_is_a_form(seen: Seen, speech: bytes, way: str, tmp_path: Path) -> None:
    file = tmp_path / "größe.wav"
    file.write_bytes(speech)
    answer, _ = curl(way, "-F", "model=writer", "-F", f"file=@{file}", f"{seen.served.url}{WORDS}")
    found: Any = json.loads(answer)
    assert "samples" in found["text"]


FORMS = {
    "a type of its own": ["-F", "file=@{file};type=audio/x-wav", "-F", "model=ears"],
    "a name of its own": ["-F", 'file=@{file};filename="a \\"b\\"; c.mp3"', "-F", "model=ears"],
    "the file last": ["-F", "model=ears", "-F", "language=en-US", "-F", "file=@{file}"],
    "strings as they are": ["--form-string", "model=ears", "-F", "file=@{file}"],
    "a header of a part": ["-F", 'file=@{file};headers="X-A: b"', "-F", "model=ears"],
    "a part that is typed": ["-F", "file=@{file}", "-F", "model=ears;type=text/plain"],
    "a field from a file": ["-F", "file=@{file}", "-F", "model=<{model}"],
    "a field that is empty": ["-F", "file=@{file}", "-F", "model=ears", "-F", "language="],
    "fields that nobody knows": ["-F", "file=@{file}", "-F", "model=ears", "-F", "x[y]=z"],
    "words twice": [
        *("-F", "file=@{file}", "-F", "model=ears", "-F", "response_format=verbose_json"),
        *("-F", "timestamp_granularities[]=word", "-F", "timestamp_granularities[]=segment"),
    ],
    "words without brackets": [
        *("-F", "file=@{file}", "-F", "model=ears", "-F", "response_format=verbose_json"),
        *("-F", "timestamp_granularities=word"),
    ],
    "in pieces": ["-H", "Transfer-Encoding: chunked", "-F", "file=@{file}", "-F", "model=ears"],
    "asking first": ["-H", "Expect: 100-continue", "-F", "file=@{file}", "-F", "model=ears"],
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_however_it_is_written(
    seen: Seen, speech: bytes, form: str, tmp_path: Path
) -> None:
    file, model = tmp_path / "said", tmp_path / "model"
    file.write_bytes(speech)
    model.write_text("ears")
    words = [word.format(file=file, model=model) for word in FORMS[form]]
    answer, told = curl(*words, f"{seen.served.url}{WORDS}")
    found: Any = json.loads(answer)
    assert "weather" in found.get("text", ""), (found, told)
    if form.startswith("words"):
        assert found["words"]
        assert bool(found.get("segments")) == (form == "words twice")


def test_what_is_no_upgrade_here_is_answered_as_it_is(seen: Seen) -> None:
    """Plain ``--http2`` asks to change the version on the way, which servers may ignore."""
    answer, told = curl("--http2", f"{seen.served.url}/health")
    assert json.loads(answer)["status"] == "ok"
    assert "200" in told


@pytest.mark.parametrize("way", ["--http2-prior-knowledge", "--http1.1"])
def test_one_that_is_killed_frees_its_slot(seen: Seen, way: str) -> None:
    body = json.dumps({"model": "voice", "input": LONG, "stream_format": "audio"})
    process = subprocess.Popen(
        [CURL, "-sN", way, "--noproxy", "*", "-d", body, f"{seen.served.url}{SPEECH}"],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process.stdout as sound:
        assert sound.read(44).startswith(b"RIFF")
        seen.until_busy("voice")
        process.kill()
        process.wait()
    seen.until_idle("voice")


def test_two_requests_on_one_connection(seen: Seen) -> None:
    where = f"{seen.served.url}{SPEECH}"
    sound, told = curl("-d", HELLO, where, where)
    assert sound.count(b"RIFF") == 2
    assert "Re-using existing connection" in told

"""ffmpeg, talking to the server through pipes and by itself."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cases.conftest import SENTENCE, SPEECH, WORDS
from tests.clients.conftest import Seen

pytestmark = [
    pytest.mark.process,
    pytest.mark.models,
    pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed"),
    pytest.mark.skipif(shutil.which("curl") is None, reason="the command curl is not installed"),
]

FFMPEG = [shutil.which("ffmpeg") or "ffmpeg", "-v", "error", "-nostdin"]
CURL = [shutil.which("curl") or "curl", "-sSfN", "--max-time", "60", "--noproxy", "*"]
RAW = ["-f", "s16le", "-ar", "16000", "-ac", "1"]


@pytest.fixture(scope="module")
def file(speech: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sound") / "said.wav"
    place.write_bytes(speech)
    return place


def piped(first: Sequence[str], second: Sequence[str]) -> bytes:
    """What the second prints of what the first does."""
    with subprocess.Popen(first, stdout=subprocess.PIPE) as source:
        done = subprocess.run(second, stdin=source.stdout, capture_output=True, check=False)
        assert source.stdout is not None
        source.stdout.close()
    assert (source.returncode, done.returncode) == (0, 0), done.stderr
    return done.stdout


@pytest.mark.parametrize("http", ["--http1.1", "--http2-prior-knowledge"])
@pytest.mark.parametrize("real_time", [False, True])
def test_sound_is_transcribed_while_it_is_captured(
    seen: Seen, file: Path, http: str, real_time: bool
) -> None:
    pace = ["-re"] if real_time else []
    target = f"{seen.served.url}{WORDS}/live?model=ears&sample_rate=16000"
    told = piped(
        [*FFMPEG, *pace, "-i", str(file), *RAW, "-"],
        [*CURL, http, "-X", "POST", "-T", "-", target],
    )
    lines = [line[6:] for line in told.decode().splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    assert "weather" in json.loads(lines[-1])["text"]


@pytest.mark.parametrize(
    ("name", "codec"),
    [("webm", "libopus"), ("ogg", "libvorbis"), ("matroska", "flac"), ("adts", "aac"), ("mp3", "")],
)
def test_a_file_that_is_still_being_written_is_uploaded_as_a_form(
    seen: Seen, file: Path, name: str, codec: str
) -> None:
    """Through a pipe nothing can be sought in: the container has no sizes and no index."""
    coded = ["-c:a", codec] if codec else []
    told = piped(
        [*FFMPEG, "-i", str(file), *coded, "-f", name, "-"],
        [
            *CURL,
            *("--form", "file=@-;filename=sound", "--form", "model=ears"),
            f"{seen.served.url}{WORDS}",
        ],
    )
    assert "weather" in json.loads(told)["text"]


@pytest.mark.parametrize("kind", ["wav", "mp3", "flac", "opus", "aac"])
def test_speech_is_read_from_a_pipe_as_it_is_made(seen: Seen, kind: str, tmp_path: Path) -> None:
    body = {
        "model": "voice",
        "input": f"{SENTENCE} Good night.",
        "response_format": kind,
        "stream_format": "audio",
    }
    sound = piped(
        [*CURL, "-d", json.dumps(body), f"{seen.served.url}{SPEECH}"],
        [*FFMPEG[:-1], "-i", "-", *RAW, "-"],
    )
    assert len(sound) > 2 * 16_000 * 2


def test_ffmpeg_posts_by_itself(seen: Seen, file: Path) -> None:
    """It has no use for the answer, but for the log a whole request was served."""
    since = seen.mark()
    target = f"{seen.served.url}{WORDS}/live?model=writer&sample_rate=16000"
    done = subprocess.run(
        [*FFMPEG, "-i", str(file), *RAW, "-method", "POST", target],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "/v1/audio/transcriptions/live" in seen.until_said('model="writer"', since)
    seen.until_idle("writer")

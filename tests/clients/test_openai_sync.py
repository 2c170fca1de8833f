"""The ``openai`` package, as most programs use it: each method of audio and models, each helper."""

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import openai
import pytest
import soundfile
from openai.types.audio import Transcription, TranscriptionVerbose
from tests.cases.conftest import SENTENCE
from tests.clients.conftest import DEPRECATED, LONG, Seen

pytestmark = [pytest.mark.process, pytest.mark.models]

Format = Literal["mp3", "opus", "flac", "wav", "pcm"]
FORMATS: dict[Format, str] = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}

HEARD = re.compile(r"heard \d{5} samples")
"""What the rehearsed model says of a recording that it got whole."""


@pytest.fixture(scope="module")
def client(seen: Seen) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=seen.base_url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.mark.parametrize("kind", FORMATS)
def test_speech_comes_whole_in_each_format(client: openai.OpenAI, kind: Format) -> None:
    answer = client.audio.speech.create(
        model="voice", voice="alloy", input="Good morning.", response_format=kind, speed=1.1
    )
    assert answer.response.headers["content-type"].split(";")[0] == FORMATS[kind]
    if kind == "pcm":
        assert len(answer.content) > 22_050 / 2
        return
    samples, rate = soundfile.read(io.BytesIO(answer.content))
    assert len(samples) > rate / 4


def test_a_whole_answer_can_be_read_in_each_way(client: openai.OpenAI, tmp_path: Path) -> None:
    def ask() -> Any:
        return client.audio.speech.create(
            model="voice",
            voice="alloy",
            input="Good morning.",
            response_format="wav",
            instructions="Softly.",
            extra_body={"seed": 3},
        )

    content = ask().content
    assert content.startswith(b"RIFF")
    assert ask().read() == content
    assert b"".join(ask().iter_bytes()) == content
    ask().write_to_file(tmp_path / "a.wav")
    assert (tmp_path / "a.wav").read_bytes() == content


def test_a_raw_answer_has_its_headers(client: openai.OpenAI) -> None:
    raw = client.audio.speech.with_raw_response.create(
        model="voice",
        voice="alloy",
        input="Good morning.",
        extra_headers={"X-Request-Id": "by-name"},
    )
    assert raw.headers["x-request-id"] == raw.request_id == "by-name"
    assert float(raw.headers["x-paraudio-audio-duration-ms"]) > 0
    assert raw.parse().content.startswith(b"RIFF")


def test_speech_is_streamed_into_a_file_and_in_pieces(
    client: openai.OpenAI, tmp_path: Path
) -> None:
    def ask(**more: Any) -> Any:
        return client.audio.speech.with_streaming_response.create(
            model="voice", voice="alloy", input=f"{SENTENCE} {SENTENCE}", **more
        )

    with ask(response_format="wav", extra_body={"seed": 1}) as whole:
        whole.stream_to_file(tmp_path / "whole.wav")
    with ask(response_format="wav", stream_format="audio", extra_body={"seed": 1}) as growing:
        assert "content-length" not in growing.headers
        pieces = list(growing.iter_bytes())
    assert len(pieces) > 1
    assert b"".join(pieces)[44:] == (tmp_path / "whole.wav").read_bytes()[44:]


def test_speech_is_streamed_as_events(client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="voice", voice="alloy", input=f"{SENTENCE} Good night.", stream_format="sse"
    ) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    *deltas, done = map(json.loads, lines)
    assert len(deltas) > 1
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert all(len(base64.b64decode(delta["audio"])) % 2 == 0 for delta in deltas)
    assert done["type"] == "speech.audio.done"
    assert 0 < done["timing"]["ttft_ms"] < done["timing"]["wall_ms"]


def test_leaving_a_streamed_answer_early_frees_the_slot(client: openai.OpenAI, seen: Seen) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="voice", voice="alloy", input=LONG, stream_format="audio", response_format="pcm"
    ) as answer:
        assert next(answer.iter_bytes())
        seen.until_busy("voice")
    seen.until_idle("voice")


def test_a_recording_comes_in_any_way_that_the_package_sends_files(
    client: openai.OpenAI, speech: bytes, tmp_path: Path
) -> None:
    place = tmp_path / "a.wav"
    place.write_bytes(speech)
    ways: list[Any] = [
        place,
        speech,
        io.BytesIO(speech),
        ("größe ☃.bin", speech),
        ("a.mp3", speech, "audio/mpeg"),
        ("a", speech, "application/octet-stream", {"X-Part": "1"}),
    ]
    texts = [client.audio.transcriptions.create(model="writer", file=way).text for way in ways]
    heard = {found[0] for text in texts if (found := HEARD.search(text))}
    assert len(heard) == 1, texts


def test_fields_of_openais_own_models_are_taken(client: openai.OpenAI, speech: bytes) -> None:
    answer = client.audio.transcriptions.create(
        model="writer",
        file=("a.wav", speech),
        language="en",
        prompt="A remark about the weather.",
        temperature=0.2,
        include=["logprobs"],
        chunking_strategy="auto",
        response_format="json",
    )
    assert isinstance(answer, Transcription)
    assert HEARD.search(answer.text)


def test_both_granularities_come_in_seconds(client: openai.OpenAI, speech: bytes) -> None:
    answer = client.audio.transcriptions.create(
        model="ears",
        file=("a.wav", speech),
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
    )
    assert isinstance(answer, TranscriptionVerbose)
    assert answer.words
    assert answer.segments
    assert answer.segments[-1].end <= float(answer.duration) + 0.01
    spoken = " ".join(word.word for word in answer.words)
    assert spoken.split() == answer.text.split()


@pytest.mark.parametrize(
    ("kind", "begins"), [("text", ""), ("srt", "1\n00:00:"), ("vtt", "WEBVTT\n\n00:")]
)
def test_plain_formats_are_strings(
    client: openai.OpenAI, speech: bytes, kind: Any, begins: str
) -> None:
    answer = client.audio.transcriptions.create(
        model="writer", file=("a.wav", speech), response_format=kind
    )
    assert isinstance(answer, str)
    assert answer.startswith(begins)
    assert HEARD.search(answer)
    with client.audio.transcriptions.with_streaming_response.create(
        model="writer", file=("a.wav", speech), response_format=kind
    ) as streamed:
        assert HEARD.search("".join(streamed.iter_text()))


def test_leaving_a_streamed_transcription_early_frees_the_slot(
    client: openai.OpenAI, seen: Seen, speech: bytes
) -> None:
    stream = client.audio.transcriptions.create(model="ears", file=("a.wav", speech), stream=True)
    with stream as events:
        assert next(iter(events)).type == "transcript.text.delta"
    seen.until_idle("ears")


@DEPRECATED
def test_a_translation_is_refused_by_the_field_that_would_do(
    client: openai.OpenAI, speech: bytes
) -> None:
    with pytest.raises(openai.BadRequestError, match="one that translates") as refused:
        client.audio.translations.create(model="ears", file=("a.wav", speech))
    assert refused.value.param == "model"


def test_models_are_listed_and_retrieved(client: openai.OpenAI, seen: Seen) -> None:
    listed = {model.id: model for model in client.models.list()}
    assert {"voice", "ears", "vad", "sim"} <= set(listed)
    one = client.models.retrieve("voice")
    assert (one.object, one.owned_by) == ("model", "paraudio")
    assert one.created == listed["voice"].created > 1_600_000_000
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("nobody")
    assert missing.value.code == "model_not_found"


def test_several_threads_share_one_client(client: openai.OpenAI, seen: Seen) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def speak(seed: int) -> bytes:
        return client.audio.speech.create(
            model="voice",
            voice="alloy",
            input="Seven red apples.",
            response_format="wav",
            extra_body={"seed": seed},
        ).content

    alone = [speak(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(speak, range(6))) == alone
    seen.until_idle("voice")

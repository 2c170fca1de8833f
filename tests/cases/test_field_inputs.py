"""What was seen to go wrong with servers of this kind, by the numbers of the field cases.

Here: what comes in and what goes out. Who waits, leaves, loads and ends: `test_field_cases`.
"""

import base64
import io
import json
import random
import re
import struct
import time
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import soundfile
from tests.audio.containers import container
from tests.cases.conftest import RUN, SENTENCE, SPEECH, WORDS
from tests.http.sounds import heard, sound_file
from tests.server.harness import Served

from paraudio.audio import resample
from paraudio.engines import Audio, Samples

pytestmark = [pytest.mark.process, pytest.mark.models]

UNKNOWN_SIZE = 0xFFFFFFFF
WAV_HEAD = 44
EARS = {"model": "ears"}


def speak(http: httpx.Client, **fields: object) -> httpx.Response:
    asked = {"model": "voice", "input": "Hello.", **fields}
    return http.post(SPEECH, json=asked)


def refused(answer: httpx.Response, param: str) -> str:
    """Check that an answer is a 400 that names a field; its message."""
    assert answer.status_code == 400, (answer.status_code, answer.text[:300])
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param, error
    assert len(answer.content) < 2000, "nothing long is repeated"
    return str(error["message"])


def is_speech(answer: httpx.Response, *, least_s: float = 0.1) -> Samples:
    """Check that an answer is a wav with sound in it; the samples."""
    assert answer.status_code == 200, answer.text[:300]
    assert answer.headers["content-type"] == "audio/wav"
    samples, rate = heard(answer.content)
    assert len(samples) > least_s * rate
    assert np.abs(samples).max() > 0.01
    return samples


def words(http: httpx.Client, file: Any, **fields: str) -> httpx.Response:
    return http.post(WORDS, data={**EARS, **fields}, files={"file": file})


@pytest.mark.parametrize("silence", [16_000, 160_000])
def test_c08_silence_is_no_words_and_nothing_is_an_error(
    http: httpx.Client, speech: bytes, silence: int
) -> None:
    assert "birds" in words(http, speech).json()["text"]
    quiet = words(http, sound_file(np.zeros(silence, np.float32)))
    assert (quiet.status_code, quiet.json()["text"]) == (200, "")
    refused(words(http, sound_file(np.zeros(0, np.float32))), "file")
    refused(words(http, ("empty.wav", b"")), "file")


@pytest.fixture(scope="module")
def sdk(parallel: Served) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{parallel.url}/v1", api_key="none", max_retries=0)


def test_c09_the_sdk_gets_each_format(sdk: openai.OpenAI, speech: bytes) -> None:
    make = sdk.audio.transcriptions.with_raw_response.create
    file = ("a.wav", speech)
    plain = make(model="ears", file=file, response_format="text")
    assert plain.headers["content-type"].startswith("text/plain")
    assert "weather" in plain.text
    srt = make(model="ears", file=file, response_format="srt")
    assert re.match(r"1\n00:00:\d\d,\d{3} --> 00:00:\d\d,\d{3}\n\S", srt.text)
    vtt = make(model="ears", file=file, response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt")
    assert vtt.text.startswith("WEBVTT\n\n")
    verbose = sdk.audio.transcriptions.create(
        model="ears", file=file, response_format="verbose_json", timestamp_granularities=["word"]
    )
    assert verbose.words
    assert not verbose.segments
    ends = [word.end for word in verbose.words]
    assert ends == sorted(ends)
    assert 0 < ends[-1] <= float(verbose.duration)


def test_c09_the_sdk_reads_streamed_words(sdk: openai.OpenAI, speech: bytes) -> None:
    stream = sdk.audio.transcriptions.create(model="ears", file=("a.wav", speech), stream=True)
    events = list(stream)
    kinds = [event.type for event in events]
    assert set(kinds[:-1]) == {"transcript.text.delta"}
    assert kinds[-1] == "transcript.text.done"
    done = events[-1]
    assert done.type == "transcript.text.done"
    assert "".join(getattr(event, "delta", "") for event in events[:-1]) == done.text


def test_c10_a_streamed_wav_is_one_header_and_the_sound_of_the_whole(http: httpx.Client) -> None:
    asked = {"input": f"{SENTENCE} {SENTENCE} Good night.", "seed": 5}
    whole = speak(http, **asked)
    body = {"model": "voice", **asked, "stream_format": "audio", "response_format": "wav"}
    with http.stream("POST", SPEECH, json=body) as answer:
        assert answer.headers["content-type"] == "audio/wav"
        assert "content-length" not in answer.headers
        pieces = list(answer.iter_raw())
    grown = b"".join(pieces)
    assert len(pieces) > 1, "it came while it was made"
    assert grown.count(b"RIFF") == grown.count(b"WAVEfmt ") == 1
    assert struct.unpack_from("<I", grown, 4) == struct.unpack_from("<I", grown, 40)
    assert struct.unpack_from("<I", grown, 40) == (UNKNOWN_SIZE,)
    assert grown[WAV_HEAD:] == whole.content[WAV_HEAD:]
    heard_back, rate = soundfile.read(io.BytesIO(grown), dtype="int16")
    assert len(heard_back) > 4 * rate
    # A player has heard this much when it has read so much, whatever is still to come.
    begun, _ = soundfile.read(io.BytesIO(grown[: WAV_HEAD + 2 * rate]), dtype="int16")
    assert begun.tolist() == heard_back[:rate].tolist()


NOTHING = ["", " ", "\n\t ", "\x07\x1b", "\u200b", "\ufeff", "...", "\u0301" * 50, "-", "\0"]
SOMETHING = [
    "\U0001f600",
    "a\0b",
    "\x1b[31mred",
    "\u202eabc",
    "مرحبا",
    "日本語です",
    "e\u0301" * 20,
    "line\n\n\nline",
    "<speak><p>Hello.</p>" + '<break time="1s"/>' * 280 + "</speak>",
]


@pytest.mark.parametrize("text", NOTHING, ids=ascii)
def test_c12_a_text_with_nothing_to_speak_is_refused(http: httpx.Client, text: str) -> None:
    refused(speak(http, input=text), "input")
    streamed = speak(http, input=text, stream_format="sse")
    refused(streamed, "input")


@pytest.mark.parametrize("text", SOMETHING, ids=lambda text: ascii(text[:12]))
def test_c12_of_an_odd_text_is_spoken_what_can_be(http: httpx.Client, text: str) -> None:
    is_speech(speak(http, input=text))


@pytest.mark.parametrize("text", [None, 1, True, [], {}], ids=str)
def test_c12_an_input_of_another_kind_is_refused(http: httpx.Client, text: object) -> None:
    refused(speak(http, input=text), "input")


def test_c12_an_empty_voice_is_the_default_and_an_unknown_one_is_taken_where_there_is_one(
    http: httpx.Client,
) -> None:
    default = speak(http, seed=1)
    for name in ("", " ", "alloy"):
        assert speak(http, voice=name, seed=1).content == default.content


def ogg(subtype: str) -> Callable[[bytes], bytes]:
    return lambda wav: again(wav, "OGG", subtype)


def again(wav: bytes, container: str, subtype: str) -> bytes:
    """A recording in another format; opus takes few rates."""
    samples, rate = heard(wav)
    if subtype == "OPUS":
        samples, rate = resample(Audio(samples, rate), 48_000).samples, 48_000
    return sound_file(samples, rate, container, subtype=subtype)


def recorded(kind: str, codec: str, **more: Any) -> Callable[[bytes], bytes]:
    """As a browser, a phone or a camera writes it."""

    def make(wav: bytes) -> bytes:
        samples, rate = heard(wav)
        sound = resample(Audio(samples, rate), 48_000).samples
        return container(kind, codec, sound, rate=48_000, **more)

    return make


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "wav": bytes,
    "mp3": lambda wav: again(wav, "MP3", "MPEG_LAYER_III"),
    "flac": lambda wav: again(wav, "FLAC", "PCM_16"),
    "vorbis": ogg("VORBIS"),
    "opus": ogg("OPUS"),
    "webm, as it is recorded": recorded("webm", "libopus", piped=True),
    "webm with a picture": recorded("webm", "libopus", picture=True),
    "m4a": recorded("ipod", "aac"),
    "mp4 in fragments": recorded(
        "mp4", "aac", piped=True, options={"movflags": "frag_keyframe+empty_moov"}
    ),
    "aac": recorded("adts", "aac"),
}


@pytest.mark.parametrize("form", FORMS)
def test_c13_a_recording_is_recognised_by_its_content(
    http: httpx.Client, speech: bytes, form: str
) -> None:
    data = FORMS[form](speech)
    for name, kind in (("clip", ""), ("a.wav", "audio/wav"), ("größe ☃.bin", "text/plain")):
        answer = words(http, (name, data, kind) if kind else (name, data))
        assert answer.status_code == 200, answer.text
        assert "weather is nice" in answer.json()["text"]


@pytest.mark.parametrize("first", ["file", "model"])
@pytest.mark.parametrize("quoted", [False, True])
def test_c13_parts_come_in_any_order_and_the_boundary_in_any_dress(
    http: httpx.Client, speech: bytes, first: str, quoted: bool
) -> None:
    mark = "a b'c" if quoted else "----x"
    parts = {
        "file": b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\n' + speech,
        "model": b'Content-Disposition: form-data; name="model"\r\n\r\nears',
    }
    last = next(name for name in parts if name != first)
    line = f"--{mark}".encode()
    body = b"\r\n".join([line, parts[first], line, parts[last], line + b"--", b""])
    boundary = f'"{mark}"' if quoted else mark
    answer = http.post(
        WORDS,
        content=body,
        headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
    )
    assert answer.status_code == 200, answer.text
    assert "weather is nice" in answer.json()["text"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x1a\x45\xdf\xa3\x9fB\x86\x81\x01B\xf7\x81\x01B\xf2\x81\x04B\xf3\x81\x08webm",
        b"\0\0\0\x20ftypM4A \0\0\0\0M4A mp42isom\0\0\0\0" + bytes(100),
    ],
    ids=["webm", "m4a"],
)
def test_c13_a_head_of_a_container_with_nothing_in_it_is_refused(
    http: httpx.Client, data: bytes
) -> None:
    refused(words(http, ("a", data)), "file")


def bomb(rate: int, channels: int, bits: int = 16, size: int = 2**30, body: bytes = b"") -> bytes:
    """A wav whose head says anything."""
    block = channels * bits // 8
    head = struct.pack(
        "<4sI4s4sIHHIIHH4sI",
        *(b"RIFF", (size + 36) & 0xFFFFFFFF, b"WAVE", b"fmt ", 16, 1, channels, rate),
        *((rate * block) & 0xFFFFFFFF, block & 0xFFFF, bits, b"data", size),
    )
    return head + body


BAD_SOUND = {
    "random": random.Random(1).randbytes(10**6),
    "cut off": sound_file()[:-5000],
    "cut in its head": sound_file()[:20],
    "text": b"Dear Sir or Madam, " * 1000,
    "head only": bomb(16_000, 1, size=0),
    "says 2 GiB": bomb(16_000, 1, body=bytes(1000)),
    "no rate": bomb(0, 1, size=1000, body=bytes(1000)),
    "no channels": bomb(16_000, 0, size=1000, body=bytes(1000)),
    "255 channels": bomb(384_000, 255, size=510 * 100, body=bytes(510 * 100)),
    "huge rate": bomb(2**32 - 1, 1, size=1000, body=bytes(1000)),
    "no bits": bomb(16_000, 1, 0, size=1000, body=bytes(1000)),
    "odd bits": bomb(16_000, 1, 17, size=1000, body=bytes(1000)),
    "flac of nothing": b"fLaC" + bytes(1000),
    "ogg of nothing": b"OggS" + bytes(1000),
    "id3 for ever": b"ID3\4\0\0\x7f\x7f\x7f\x7f" * 1000,
}


@pytest.mark.parametrize("kind", BAD_SOUND)
def test_c14_what_is_no_recording_is_refused_at_once(http: httpx.Client, kind: str) -> None:
    data = BAD_SOUND[kind]
    began = time.monotonic()
    refused(words(http, ("a.wav", data)), "file")
    encoded = base64.b64encode(data).decode()
    refused(http.post(RUN, json={"model": "vad", "audio_base64": encoded}), "audio_base64")
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("tag", ["", " ", "auto", "en", "en-US", "en_GB", "EN"])
def test_c15_languages_that_a_model_knows(http: httpx.Client, speech: bytes, tag: str) -> None:
    assert "birds" in words(http, speech, language=tag).json()["text"]
    is_speech(speak(http, language=tag))


@pytest.mark.parametrize("tag", ["xx", "de-DE", "english please", "\0"], ids=ascii)
def test_c15_languages_that_it_does_not_know(http: httpx.Client, speech: bytes, tag: str) -> None:
    refused(words(http, speech, language=tag), "language")
    refused(speak(http, language=tag), "language")


def test_c16_seeds_are_exact(http: httpx.Client) -> None:
    seeds = [0, 2**53, 2**53 + 1, 2**64 - 1]
    sounds = [speak(http, seed=seed).content for seed in seeds]
    assert len(set(sounds)) == len(seeds), "no two seeds were taken for one"
    assert [speak(http, seed=str(seed)).content for seed in seeds] == sounds


@pytest.mark.parametrize("seed", [-1, 2**64, "abc", "", "1.5", 1.5, True, [], "0x10"], ids=str)
def test_c16_what_is_no_seed_is_refused(http: httpx.Client, seed: object) -> None:
    refused(speak(http, seed=seed), "seed")


def test_c19_long_texts_are_spoken_to_the_end_or_refused(http: httpx.Client) -> None:
    """By number of words, at a speed at which the whole takes a while only."""
    fast = {"speed": 4, "options": {"noise_scale": 0, "noise_w": 0}}
    some = is_speech(speak(http, input="word " * 20, **fast))
    many = is_speech(speak(http, input="word " * 160, **fast))
    lines = is_speech(speak(http, input="word\n" * 160, **fast))
    assert len(many) > 7 * len(some)
    assert len(lines) > 7 * len(some)
    assert "50000" in refused(speak(http, input="a" * 10**6), "input")


def test_c19_twenty_thousand_characters_without_a_mark(http: httpx.Client) -> None:
    body = {"model": "voice", "input": "and so on " * 2000, "stream_format": "sse", "speed": 4}
    with http.stream("POST", SPEECH, json=body) as answer:
        assert answer.status_code == 200
        for _, line in zip(range(6), answer.iter_lines(), strict=False):
            if line:
                event = json.loads(line.removeprefix("data: "))
                assert event["type"] == "speech.audio.delta"
                assert len(event["audio"]) < 2_000_000, "it comes sentence by sentence"


PATHS = ["../../etc/passwd", "/etc/passwd", "..\\x", "a\0b", "C:x", ".", "..", "x/../y"]


@pytest.mark.parametrize("path", PATHS, ids=ascii)
def test_c20_a_voice_is_no_path(http: httpx.Client, path: str) -> None:
    message = refused(speak(http, voice=path), "voice")
    assert "passwd" not in message
    assert "passwd" not in refused(
        speak(http, voice_ref={"type": "path", "path": path}), "voice_ref"
    )


@pytest.mark.parametrize("path", [*PATHS, "/proc/self/environ", "/dev/zero", "/root"], ids=ascii)
def test_c20_audio_outside_the_allowed_folders_is_refused_in_the_same_words(
    http: httpx.Client, path: str
) -> None:
    absent = http.post(WORDS, json={**EARS, "audio": "/no/such/file"})
    answer = http.post(WORDS, json={**EARS, "audio": path})
    assert refused(answer, "audio") == refused(absent, "audio")


def test_c21_mp3_is_mp3_and_a_format_that_is_not_made_is_refused(http: httpx.Client) -> None:
    answer = speak(http, response_format="mp3")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "audio/mpeg")
    with soundfile.SoundFile(io.BytesIO(answer.content)) as file:
        assert (file.format, file.samplerate) == ("MP3", 22_050)
    assert "wav" in refused(speak(http, response_format="tape"), "response_format")


def test_c21_speed_is_honoured_or_refused(http: httpx.Client) -> None:
    steady = {"input": SENTENCE, "options": {"noise_scale": 0, "noise_w": 0}}
    normal, fast, slow = (
        len(is_speech(speak(http, speed=speed, **steady))) for speed in (1, 2, 0.5)
    )
    assert 0.4 < fast / normal < 0.65
    assert 1.6 < slow / normal < 2.4
    for speed in (0, -1, 5, "fast", True):
        refused(speak(http, speed=speed), "speed")


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        "[" + "[]," * 60_000 + "1]",
        '{"a":' * 100_000,
        '{"model": NaN}',
        '{"model": -Infinity}',
        '{"model": "voice", "model": "sim"}',
        '{"model": "\\ud800"}',
        '{"seed": ' + "9" * 100_000 + "}",
        "[]",
        "null",
        "",
        '{"model": "voice"} x',
    ],
    ids=lambda body: body[:16],
)
def test_a_body_that_is_no_plain_json_object_is_refused(http: httpx.Client, body: str) -> None:
    answer = http.post(RUN, content=body.encode(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 400, answer.text[:200]
    assert len(answer.content) < 2000
    for invalid in (b'{"model": "\xff"}', b'{"model": "\xed\xa0\x80"}', "{}".encode("utf-16")):
        assert http.post(RUN, content=invalid).status_code == 400


@pytest.mark.parametrize("what", ["name", "value", "model"])
def test_nothing_long_of_the_client_is_repeated(http: httpx.Client, what: str) -> None:
    long = "a" * 100_000
    if what == "model":
        answer = speak(http, model=long)
        assert answer.status_code == 404
    else:
        options = {long: 1} if what == "name" else {"noise_scale": long}
        answer = speak(http, options=options)
        assert answer.status_code == 400
    assert len(answer.content) < 2000


def test_afterwards_nothing_is_held(http: httpx.Client) -> None:
    for model in http.get("/v1/models").json()["data"]:
        held = (model["active_slots"], model["queued_requests"], model["queued_managers"])
        assert held == (0, 0, 0), model
    assert http.get("/v1/requests").json()["data"] == []

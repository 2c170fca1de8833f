"""What was seen to go wrong with servers of this kind, by the numbers of the field cases.

Here: recordings that come in, and the words that go out.
"""

import base64
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
from tests.audio.containers import container
from tests.cases.asking import refused, words
from tests.cases.conftest import RUN, WORDS
from tests.http.sounds import heard, sound_file
from tests.server.harness import Served

from paraudio.audio import resample
from paraudio.engines import Audio

pytestmark = [pytest.mark.process, pytest.mark.models]


@pytest.mark.parametrize("silence", [16_000, 160_000])
def test_c08_silence_is_no_words_and_nothing_is_an_error(
    http: httpx.Client, speech: bytes, silence: int
) -> None:
    assert "birds" in words(http, speech).json()["text"]
    quiet = words(http, sound_file(np.zeros(silence, np.float32)))
    assert (quiet.status_code, quiet.json()["text"]) == (200, "")
    refused(words(http, sound_file(np.zeros(0, np.float32))), "file")
    refused(words(http, ("empty.wav", b"")), "file")


@pytest.mark.parametrize("form", ["text", "srt", "vtt", "verbose_json", "stream"])
def test_c08_no_form_of_an_answer_has_words_of_the_one_before(
    http: httpx.Client, speech: bytes, form: str
) -> None:
    fields = {"stream": "true"} if form == "stream" else {"response_format": form}
    silence = sound_file(np.zeros(16_000, np.float32))
    for _ in range(2):
        assert "birds" in words(http, speech, **fields).text
        quiet = words(http, silence, **fields)
        assert quiet.status_code == 200
        said = quiet.text.replace("WEBVTT", "")
        if form == "stream":
            [done, end] = [line.removeprefix("data: ") for line in said.split("\n\n") if line]
            assert json.loads(done)["text"] == ""
            assert end == "[DONE]"
        elif form == "verbose_json":
            assert (quiet.json()["text"], quiet.json()["segments"]) == ("", [])
        else:
            assert said.strip() == ""


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
    assert srt.headers["content-type"].startswith("application/x-subrip")
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
    assert kinds.count("transcript.text.done") == 1
    done = events[-1]
    assert done.type == "transcript.text.done"
    assert "".join(getattr(event, "delta", "") for event in events[:-1]) == done.text


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
    encoded = base64.b64encode(data).decode()
    # What else the machine does may hold one up, but not each of five.
    for _ in range(5):
        began = time.monotonic()
        refused(words(http, ("a.wav", data)), "file")
        between = time.monotonic()
        refused(http.post(RUN, json={"model": "vad", "audio_base64": encoded}), "audio_base64")
        if max(between - began, time.monotonic() - between) < 1:
            return
    pytest.fail("it took a second each time")

"""What was seen to go wrong with servers of this kind, by the numbers of the field cases.

Here: texts that come in, and the speech that goes out; fields, paths and bodies. Recordings:
`test_field_sounds`. Who waits, leaves, loads and ends: `test_field_cases`.
"""

import io
import json
import os
import select
import shutil
import struct
import subprocess

import httpx
import pytest
import soundfile
from tests.cases.asking import EARS, is_speech, refused, speak, words
from tests.cases.conftest import RUN, SENTENCE, SPEECH, WORDS

pytestmark = [pytest.mark.process, pytest.mark.models]

UNKNOWN_SIZE = 0xFFFFFFFF
WAV_HEAD = 44


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


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_c10_a_player_plays_a_streamed_wav_while_it_grows(http: httpx.Client) -> None:
    """ffmpeg gives sound out before the end of the wav has been made."""
    body = {"input": f"{SENTENCE} " * 20, "stream_format": "audio", "response_format": "wav"}
    command = ["ffmpeg", "-v", "error", "-f", "wav", "-i", "-", "-f", "s16le", "-"]
    with (
        http.stream("POST", SPEECH, json={"model": "voice", **body}) as answer,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as player,
    ):
        assert player.stdin is not None
        assert player.stdout is not None
        heard_s = 0.0
        pieces = answer.iter_raw()
        while heard_s < 2:
            player.stdin.write(next(pieces))
            player.stdin.flush()
            while select.select([player.stdout], [], [], 0.2)[0]:
                heard_s += len(os.read(player.stdout.fileno(), 65_536)) / 2 / 22_050
        assert next(pieces), "there is more to come"
        player.kill()


NOTHING = ["", " ", "\n\t ", "\x07\x1b", "\u200b", "\ufeff", "...", "\u0301" * 50, "-", "\0"]
SOMETHING = [
    "\U0001f600",
    "a\0b",
    "\x1b[31mred",
    "\u202eabc",
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


@pytest.mark.parametrize("text", ["مرحبا", "日本語です"], ids=ascii)
def test_c12_a_text_in_other_letters_is_spoken_or_refused_by_name(
    http: httpx.Client, text: str
) -> None:
    answer = speak(http, input=text)
    if answer.status_code == 200:
        is_speech(answer)
    else:
        refused(answer, "input")


@pytest.mark.parametrize("text", [None, 1, True, [], {}], ids=str)
def test_c12_an_input_of_another_kind_is_refused(http: httpx.Client, text: object) -> None:
    refused(speak(http, input=text), "input")


def test_c12_an_empty_voice_is_the_default_and_an_unknown_one_is_taken_where_there_is_one(
    http: httpx.Client,
) -> None:
    default = speak(http, seed=1)
    for name in ("", " ", "alloy"):
        assert speak(http, voice=name, seed=1).content == default.content


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

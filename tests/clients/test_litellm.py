"""LiteLLM, in front of this server and as a library: OpenAI's interface with more around it."""

import io
from collections.abc import Iterator

import httpx
import openai
import pytest
import soundfile
from tests.cases.conftest import SENTENCE, SPEECH, WORDS
from tests.clients.conftest import Seen

pytestmark = [pytest.mark.process, pytest.mark.models]

AROUND = {"user": "u-1", "metadata": {"trace_id": "t"}, "litellm_call_id": "c", "drop_params": True}
"""What it may pass on from its own callers."""


@pytest.fixture(scope="module")
def client(seen: Seen) -> Iterator[openai.OpenAI]:
    headers = {"x-litellm-call-id": "c", "User-Agent": "litellm/1.80.0"}
    with openai.OpenAI(
        base_url=seen.base_url, api_key="sk-none", max_retries=0, default_headers=headers
    ) as client:
        yield client


def test_it_asks_for_verbose_json_and_counts_the_seconds(
    client: openai.OpenAI, speech: bytes
) -> None:
    raw = client.audio.transcriptions.with_raw_response.create(
        model="ears", file=("audio.wav", io.BytesIO(speech)), response_format="verbose_json"
    )
    found = raw.http_response.json()
    seconds = soundfile.info(io.BytesIO(speech)).duration
    assert float(found["duration"]) == pytest.approx(seconds, abs=0.05)
    assert "weather" in found["text"]
    assert found["segments"]
    assert raw.headers["content-type"] == "application/json"


@pytest.mark.parametrize("voice", ["alloy", ""])
def test_it_speaks_with_the_fields_of_its_callers_around(client: openai.OpenAI, voice: str) -> None:
    answer = client.audio.speech.create(
        model="voice", voice=voice, input=SENTENCE, response_format="mp3", extra_body=AROUND
    )
    assert answer.response.headers["content-type"] == "audio/mpeg"
    with soundfile.SoundFile(io.BytesIO(answer.content)) as sound:
        assert sound.frames > sound.samplerate


def test_its_proxy_sends_a_form_with_fields_that_nobody_knows(seen: Seen, speech: bytes) -> None:
    fields = {"model": "ears", "user": "u-1", "metadata": '{"trace_id": "t"}', "api_base": "x"}
    files = {"file": ("audio.wav", speech, "audio/wav")}
    answer = seen.http.post(WORDS, data=fields, files=files)
    assert answer.status_code == 200, answer.text
    assert "weather" in answer.json()["text"]


def test_the_key_of_its_own_is_no_matter_where_none_is_set(seen: Seen) -> None:
    for headers in ({}, {"Authorization": "Bearer sk-1"}, {"Authorization": "Bearer"}):
        answer = httpx.post(
            f"{seen.served.url}{SPEECH}", json={"model": "sim", "input": "a"}, headers=headers
        )
        assert answer.status_code == 200, (headers, answer.text)


def test_what_it_asks_of_health_and_models_is_answered(client: openai.OpenAI, seen: Seen) -> None:
    assert "voice" in {model.id for model in client.models.list()}
    assert httpx.get(f"{seen.served.url}/health").json()["status"] == "ok"

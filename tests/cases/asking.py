"""What the tests of the field cases ask for, and what an answer must be."""

from typing import Any

import httpx
import numpy as np
from tests.cases.conftest import SPEECH, WORDS
from tests.http.sounds import heard

from paraudio.engines import Samples

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

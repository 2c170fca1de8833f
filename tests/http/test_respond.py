"""JSON with long base64 texts in it."""

import base64
import json
import random

import pytest
from tests.http.sounds import heard, tone

from paraudio.engines import Audio
from paraudio.http._render import base64_audio
from paraudio.http._respond import Base64, dump


@pytest.mark.parametrize("size", [0, 1, 2, 3, 1000])
def test_base64_stands_in_json_as_any_text_does(size: int) -> None:
    texts = [base64.b64encode(random.Random(n).randbytes(size)) for n in range(3)]
    value = {
        "a": Base64(texts[0]),
        "b": ['"', Base64(texts[1]), None],
        "ü": {"c": Base64(texts[2])},
    }
    plain = {
        "a": texts[0].decode(),
        "b": ['"', texts[1].decode(), None],
        "ü": {"c": texts[2].decode()},
    }
    assert json.loads(dump(value)) == plain
    assert dump(value) == dump(plain)


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError, match="bytes"):
        dump({"a": b"bytes"})
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump({"a": float("nan")})


def test_a_sound_of_several_pieces_is_one_text() -> None:
    samples = tone(40.0)
    text = base64_audio(Audio(samples, 16_000), "wav").data
    back, rate = heard(base64.b64decode(text, validate=True))
    assert (len(back), rate) == (len(samples), 16_000)

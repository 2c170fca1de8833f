"""The page about realtime sessions, followed line by line."""

import pytest
from tests.docs.examples import ROOT, examples
from tests.docs.reader import Reader, understood

pytestmark = [pytest.mark.models, pytest.mark.process]

PAGE = ROOT / "docs" / "realtime.md"
MARKET = "we went to the market and bought some bread and butter"


def test_what_the_page_says_is_understood(reader: Reader) -> None:
    install, *python = examples(PAGE)
    assert install.code == "pip install 'openai[realtime]'"  # the tests bring it along
    streamed, committed = reader.python(*(each.code for each in python))
    started, stopped, transcript = streamed.splitlines()
    assert started == "input_audio_buffer.speech_started"
    assert stopped == "input_audio_buffer.speech_stopped"
    assert understood(MARKET, transcript)
    whole, _, seconds = committed.rstrip().rpartition(" ")
    assert understood(MARKET, whole)
    assert 3 < float(seconds) < 12

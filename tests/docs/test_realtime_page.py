"""The page about realtime sessions, followed line by line."""

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.support.ui import WebDriverWait
from tests.docs.examples import ROOT, examples
from tests.docs.reader import Reader, understood
from tests.page.browser import PATIENCE_S, open_browser

pytestmark = [pytest.mark.models, pytest.mark.process]

PAGE = ROOT / "docs" / "realtime.md"
MARKET = "we went to the market and bought some bread and butter"


def test_what_the_page_says_is_understood(reader: Reader) -> None:
    install, *python, html = examples(PAGE)
    assert install.code == "pip install 'openai[realtime]'"  # the tests bring it along
    assert html.language == "html"
    streamed, committed = reader.python(*(each.code for each in python))
    started, stopped, transcript = streamed.splitlines()
    assert started == "input_audio_buffer.speech_started"
    assert stopped == "input_audio_buffer.speech_stopped"
    assert understood(MARKET, transcript)
    whole, _, seconds = committed.rstrip().rpartition(" ")
    assert understood(MARKET, whole)
    assert 3 < float(seconds) < 12


def test_a_microphone_in_a_browser_is_understood(reader: Reader, tmp_path: Path) -> None:
    html = examples(PAGE)[-1]
    (tmp_path / "index.html").write_text(reader.here(html.code), encoding="utf-8")
    said = tmp_path / "said.wav"
    body = {"model": "piper-joe", "input": MARKET, "response_format": "wav"}
    said.write_bytes(httpx.post(f"{reader.url}/v1/audio/speech", json=body, timeout=60).content)
    flags = (
        "--use-fake-ui-for-media-stream",
        "--use-fake-device-for-media-stream",
        f"--use-file-for-fake-audio-capture={said}%noloop",
    )
    port = reader.origin.rpartition(":")[2]
    command = [sys.executable, "-m", "http.server", port, "--bind", "127.0.0.1"]
    with (
        open_browser(tmp_path / "profile", flags) as browser,
        subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as server,
    ):
        try:
            wait = WebDriverWait(browser, PATIENCE_S, ignored_exceptions=[WebDriverException])

            def opened(_: object) -> bool:
                browser.get(f"http://{reader.origin}/")
                return browser.title == "Listen"

            def told(_: object) -> bool:
                text = browser.execute_script("return document.getElementById('told').value")
                return understood(MARKET, str(text))

            wait.until(opened)
            browser.find_element("id", "listen").click()
            wait.until(told)
        finally:
            server.terminate()

"""The pages for clients, followed line by line: a real server, real models, real clients."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx
import pytest
import soundfile
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import Chrome
from selenium.webdriver.support.ui import WebDriverWait
from tests.docs.conftest import FLAGS
from tests.docs.examples import ROOT, examples
from tests.docs.reader import ADDRESS, Reader, understood
from tests.page.browser import PATIENCE_S

pytestmark = [pytest.mark.models, pytest.mark.process]

PAGES: Final = ROOT / "docs" / "clients"
BIRDS: Final = "the weather is nice and the birds are singing"
MARKET: Final = "we went to the market and bought some bread and butter"
A_WAV: Final = 44


def kind_of(file: Path) -> str:
    with soundfile.SoundFile(file) as sound:
        assert sound.frames > sound.samplerate / 2
        return str(sound.format)


def openai_page(reader: Reader, said: list[str]) -> None:
    models, _, twice, pieces, events, formats, stream, refused, several, timeout = said
    assert "piper-joe paraudio\n" in models
    assert models.endswith("\ntts\n")
    assert kind_of(reader.folder / "weather.mp3") == "MP3"
    assert kind_of(reader.folder / "market.wav") == "WAV"
    assert twice == "the same sound: True\n"
    assert 2 < float(pieces.split()[0]) < 12
    *deltas, done = events.splitlines()
    assert len(deltas) > 1
    assert all(re.fullmatch(r"\d+ bytes of pcm", delta) for delta in deltas)
    assert re.fullmatch(r"speech\.audio\.done after [\d.]+ ms to the first sound", done)
    plain, _, rest = formats.partition("\n")
    assert understood(MARKET, plain)
    assert "\n00:00:0" in rest
    assert "WEBVTT\n" in rest
    assert re.search(r"^\d\.\d\d to \d\.\d\d: \S+$", rest, flags=re.MULTILINE)
    pieced, whole = stream.splitlines()
    assert pieced == whole
    assert understood(MARKET, whole)
    assert refused.startswith("model model must be one that translates")
    lengths = json.loads(several)
    assert len(lengths) == 3
    assert min(lengths) > A_WAV + 10_000
    assert timeout.startswith("gave up: ")


def curl_page(reader: Reader, said: list[str]) -> None:
    _, _, events, formats, words, stream, piped, there, ended, wrong = said
    assert kind_of(reader.folder / "weather.mp3") == "MP3"
    assert (reader.folder / "growing.wav").read_bytes().startswith(b"RIFF\xff\xff\xff\xff")
    lines = [line for line in events.splitlines() if line]
    assert lines[0].startswith('data: {"type":"speech.audio.delta","audio":"')
    assert lines[-1] == "data: [DONE]"
    assert understood(BIRDS, json.loads(formats.splitlines()[0])["text"])
    assert "\n1\n00:00:0" in formats
    assert "\nWEBVTT\n" in formats
    found = json.loads(words)
    assert [bool(found.get(name)) for name in ("words", "segments")] == [True, False]
    assert understood(BIRDS, json.loads(stream.split("\n\n")[-3].removeprefix("data: "))["text"])
    assert understood(BIRDS, json.loads(piped)["text"])
    assert '"piper-joe"' in there
    assert '"voices"' in there
    assert '"cancelled":true' in ended.replace(" ", "")
    assert '"request_cancelled"' in ended
    assert '"param"' in wrong


def http2_page(reader: Reader, said: list[str]) -> None:
    first, second, *events = [line for line in said[0].splitlines() if line]
    for line in (first, second):
        assert re.fullmatch(r"HTTP/2 audio/wav \d{5,}", line)
    assert events[0].startswith('data: {"type":"speech.audio.delta"')
    assert events[-1] == "data: [DONE]"
    assert said[1] == "2\n"


def live_page(reader: Reader, said: list[str]) -> None:
    _, words, speech, _ = said
    assert '"transcript.text.partial"' in words
    *_, done, end = [line.removeprefix("data: ") for line in words.split("\n\n") if line]
    assert end == "[DONE]"
    assert understood(MARKET, json.loads(done)["text"])
    kinds = re.findall(r'"type":"(speech\.\w+)"', speech)
    assert kinds[0] == "speech.started"
    assert kinds[-2:] == ["speech.stopped", "speech.done"]
    assert kind_of(reader.folder / "morning.wav") == "WAV"


CHECKS: Final[dict[str, Callable[[Reader, list[str]], None]]] = {
    "openai.md": openai_page,
    "curl.md": curl_page,
    "http2.md": http2_page,
    "live.md": live_page,
}
"""Pages that are followed from their first line to their last."""

ELSEWHERE: Final = {
    "open-webui.md": {"sh": "tests/clients/test_open_webui.py"},
    "home-assistant.md": {"yaml": "tests/clients/test_home_assistant.py"},
}
"""Pages with settings of other programs, whose requests are played from those settings."""


@pytest.mark.parametrize("page", CHECKS)
def test_a_page_is_followed_to_its_end(page: str, reader: Reader) -> None:
    code = " ".join(each.code for each in examples(PAGES / page))
    if "ffmpeg" in code and shutil.which("ffmpeg") is None:
        pytest.skip("the command ffmpeg is not installed (CI installs it)")
    CHECKS[page](reader, reader.follow(PAGES / page))


def test_a_page_of_another_origin_speaks_and_listens(
    reader: Reader, browser: Chrome, tmp_path: Path
) -> None:
    start, page, serve = examples(PAGES / "browser.md")
    assert start.code == " ".join(["paraudio", "serve", *FLAGS])
    (tmp_path / "index.html").write_text(reader.here(page.code), encoding="utf-8")
    port = reader.origin.rpartition(":")[2]
    assert reader.here(serve.code) == f"python3 -m http.server {port}"
    command = [sys.executable, *shlex.split(reader.here(serve.code))[1:], "--bind", "127.0.0.1"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as server:
        try:
            browser_page(reader, browser)
        finally:
            server.terminate()


def browser_page(reader: Reader, browser: Chrome) -> None:
    wait = WebDriverWait(browser, PATIENCE_S, ignored_exceptions=[WebDriverException])

    def opened(_: Chrome) -> bool:
        browser.get(f"http://{reader.origin}/")
        return browser.title == "Speak and listen"

    wait.until(opened)

    def told() -> str:
        return str(browser.execute_script("return document.getElementById('told').value"))

    browser.find_element("id", "speak").click()
    wait.until(lambda _: told().startswith("spoken in "))
    plays = "return document.getElementById('sound').duration > 0.3"
    wait.until(lambda _: browser.execute_script(plays))
    reader.shell(
        f"curl -sf http://{ADDRESS}/v1/audio/speech -o birds.mp3 -d "
        + shlex.quote(json.dumps({"model": "piper-joe", "input": BIRDS, "response_format": "mp3"}))
    )
    browser.find_element("id", "file").send_keys(str(reader.folder / "birds.mp3"))
    wait.until(lambda _: understood(BIRDS, told()))
    text = browser.find_element("id", "text")
    text.clear()
    browser.find_element("id", "speak").click()
    wait.until(lambda _: "input" in told())
    text.send_keys("And then they went on. " * 200)
    browser.find_element("id", "speak").click()
    wait_for(reader, busy=True)
    browser.find_element("id", "stop").click()
    wait.until(lambda _: "abort" in told())
    wait_for(reader, busy=False)


def wait_for(reader: Reader, *, busy: bool) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while bool(httpx.get(f"{reader.url}/v1/models/piper-joe").json()["active_slots"]) != busy:
        assert time.monotonic() < deadline, f"it never came to that: busy {busy}"
        time.sleep(0.02)


def test_every_example_is_run_by_a_test() -> None:
    for page in sorted(PAGES.glob("*.md")):
        kinds = {each.language for each in examples(page)}
        if page.name in ELSEWHERE:
            assert kinds == set(ELSEWHERE[page.name])
            for language, test in ELSEWHERE[page.name].items():
                assert f'"{page.name}"' in (ROOT / test).read_text(encoding="utf-8"), language
        elif page.name == "browser.md":
            assert kinds == {"sh", "html"}
        elif kinds:
            assert page.name in CHECKS
            assert kinds <= {"sh", "python"}, f"{page.name}: what runs {kinds}?"


def test_the_commands_are_here() -> None:
    assert shutil.which("curl"), "the examples need curl"

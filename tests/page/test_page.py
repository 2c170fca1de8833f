"""The page, in a real browser: what it shows, and everything that it does."""

import re
import shutil
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys
from tests.page.conftest import KEY
from tests.page.watching import Watching
from tests.server.harness import Served

NOTE_STARTS = """
  window.starts = [];
  const start = AudioBufferSourceNode.prototype.start;
  AudioBufferSourceNode.prototype.start = function (at) {
    window.starts.push([at, this.buffer.duration]);
    start.call(this, at);
  };
"""
"""Notes when each piece of sound is to be played, and how long it lasts, in seconds."""

pytestmark = [pytest.mark.process, pytest.mark.models]


def test_models_and_their_states_are_shown_as_they_change(page: Watching) -> None:
    page.until(lambda: page.text("server") == "running", "running")
    page.until(lambda: page.row("slow"), "a row for each model")
    httpx.post(f"{page.url}/v1/models/unload", json={"id": "slow"}, timeout=60).raise_for_status()
    page.until(lambda: page.row("slow")[:3] == ["slow", "tts", "unloaded"], "unloaded")
    body = {"model": "slow", "text": "x", "options": {"run_ms": 60_000}}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{page.url}/v1/tasks/run", json=body, timeout=2)
    page.until(lambda: page.row("slow")[2:4] == ["ready", "0 of 1"], "ready, and free again")


def test_a_model_is_loaded_and_unloaded_by_its_button(page: Watching) -> None:
    page.until(lambda: page.row("vad"), "a row")
    if page.server("vad")["loaded"]:
        press(page, "Unload")
    before = page.server("vad")
    press(page, "Load")
    after = page.server("vad")
    assert after["loaded"]
    assert after["generation"] == before["generation"] + 1
    assert after["config"] == before["config"], "it is configured as it was"
    press(page, "Unload")
    assert not page.server("vad")["loaded"]


@pytest.mark.parametrize("model", ["voice", "ears"])
def test_a_model_of_each_task_can_be_loaded(page: Watching, model: str) -> None:
    page.until(lambda: page.row(model), "a row")
    httpx.post(f"{page.url}/v1/models/unload", json={"id": model}, timeout=60)
    press(page, "Load", model)
    assert page.server(model)["loaded"]


def press(page: Watching, word: str, model: str = "vad") -> None:
    """Press the button of a model, and wait until that is done."""
    button = f"button[aria-label='{word} {model}']"
    page.until(lambda: page.browser.find_elements("css selector", button), word)
    page.browser.find_element("css selector", button).click()
    page.until(lambda: page.text("managed-told") == f"{model} is {word.lower()}ed", word)


def test_a_text_is_spoken_and_played(page: Watching) -> None:
    page.browser.execute_script(NOTE_STARTS)
    page.choose("speak-model", "voice")
    page.at("text").clear()
    # By keyboard alone: the text, then on to the button.
    page.at("text").send_keys("Good night.", Keys.TAB, Keys.ENTER)
    page.until(lambda: page.text("speak-told").startswith("spoken in"), "spoken")
    seconds = "return document.getElementById('sound').duration"
    page.until(lambda: page.browser.execute_script(f"{seconds} > 0.4"), "a sound")
    assert page.browser.execute_script("return starts.length") > 0, "it plays"
    page.until(lambda: not page.at("speak-stop").is_enabled(), "it has been played")
    # Once more, from the player, as it was kept.
    page.browser.execute_script("document.getElementById('sound').play()")
    played = "return document.getElementById('sound').currentTime > 0"
    page.until(lambda: page.browser.execute_script(played), "it plays")


def test_a_long_text_is_played_from_its_first_piece_on(page: Watching) -> None:
    page.browser.execute_script(NOTE_STARTS)
    page.choose("speak-model", "steady")
    page.at("text").send_keys("So many words. " * 20)
    page.at("speak").submit()
    page.until(lambda: page.browser.execute_script("return starts.length") > 2, "it plays")
    assert page.server("steady")["active_slots"] == 1, "while the rest is spoken"
    assert page.text("speak-told") == "playing, while the rest is spoken"
    starts = page.browser.execute_script("return starts")
    for (at, lasts), (following, _) in pairwise(starts):
        assert following >= at + lasts - 1e-6, "one behind the other"
    # Another one takes its place, and can be stopped in turn.
    page.at("speak").submit()
    page.until(lambda: page.text("speak-told") == "speaking", "the next one")
    page.until(lambda: page.text("speak-told").startswith("playing"), "it plays")
    page.at("speak-stop").click()
    page.until(lambda: page.text("speak-told") == "stopped", "stopped")
    page.until(lambda: page.server("steady")["active_slots"] == 0, "it is free")
    assert not page.at("speak-stop").is_enabled()


def test_what_is_wrong_is_said(page: Watching) -> None:
    page.choose("speak-model", "voice")
    page.at("text").clear()
    page.at("text").send_keys("\u200b")
    page.at("speak").submit()
    page.until(lambda: "input must be a text" in page.text("speak-told"), "what is wrong")
    assert "wrong" in str(page.at("speak-told").get_attribute("class"))


def test_what_the_server_warns_of_is_said(page: Watching) -> None:
    page.choose("speak-model", "voice")
    page.at("text").clear()
    page.at("text").send_keys("Привет, hello")
    page.at("speak").submit()
    page.until(lambda: page.text("speak-told").startswith("spoken in"), "spoken")
    assert "; input has Cyrillic letters" in page.text("speak-told")


def test_stopping_frees_the_slot(page: Watching) -> None:
    page.choose("speak-model", "slow")
    page.at("text").send_keys("something")
    page.at("speak").submit()
    page.until(lambda: page.server("slow")["active_slots"] == 1, "it runs")
    page.until(lambda: page.row("slow")[3] == "1 of 1", "the table shows it")
    page.at("speak-stop").click()
    page.until(lambda: page.text("speak-told") == "stopped", "stopped")
    page.until(lambda: page.server("slow")["active_slots"] == 0, "it is free")


def test_a_file_is_written_down(page: Watching, said: Path) -> None:
    page.choose("write-model", "ears")
    page.at("file").send_keys(str(said))
    page.until(lambda: "weather" in page.text("transcript"), "the transcript")
    assert re.fullmatch(r"\d\.\d s of sound", page.text("write-told"))


def test_another_file_takes_the_place_of_the_one_before(
    page: Watching, said: Path, tmp_path: Path
) -> None:
    page.browser.execute_script(
        "window.told = []; const line = document.getElementById('write-told');"
        "new MutationObserver(() => told.push(line.textContent)).observe(line, {childList: true})"
    )
    page.choose("write-model", "slow-ears")
    page.at("file").send_keys(str(said))
    page.until(lambda: page.server("slow-ears")["active_slots"] == 1, "it runs")
    page.choose("write-model", "ears")
    page.at("file").send_keys(str(shutil.copy(said, tmp_path / "again.wav")))
    page.until(lambda: "of sound" in page.text("write-told"), "an answer")
    page.until(lambda: page.server("slow-ears")["active_slots"] == 0, "the first was stopped")
    assert "stopped" not in page.browser.execute_script("return told")


def test_a_recording_is_made_and_written_down(page: Watching) -> None:
    page.choose("write-model", "ears")
    page.at("record").click()
    page.until(lambda: page.text("write-told") == "recording", "recording")
    assert page.at("record").get_attribute("aria-pressed") == "true"
    # As long as the sentence takes, on the clock of the sound itself.
    page.browser.execute_async_script("setTimeout(arguments[0], 4000)")
    page.at("record").click()
    page.until(lambda: "of sound" in page.text("write-told"), "an answer")
    page.until(lambda: page.text("transcript"), "some words")
    assert page.at("record").get_attribute("aria-pressed") == "false"


def test_a_microphone_is_heard_while_it_is_spoken(page: Watching) -> None:
    page.choose("live-model", "ears")
    page.at("live").click()
    page.until(lambda: page.text("live-told") == "somebody speaks", "speech is found")
    page.until(lambda: page.text("heard").strip(), "words")
    page.at("live").click()
    page.until(lambda: page.at("live").get_attribute("aria-pressed") == "false", "off")
    page.until(lambda: page.server("ears")["active_slots"] == 0, "it is free")
    page.until(lambda: page.server("vad")["active_slots"] == 0, "it is free")


def test_who_stops_in_a_sentence_has_it_written_down(page: Watching) -> None:
    page.choose("live-model", "ears")
    page.at("live").click()
    page.until(lambda: page.text("live-told") == "somebody speaks", "speech is found")
    page.at("live").click()
    assert page.at("live").get_attribute("aria-pressed") == "false"
    page.until(lambda: page.text("heard").strip(), "what was being said")
    page.until(lambda: not page.text("live-told"), "nothing is left to be said")
    page.until(lambda: page.server("ears")["active_slots"] == 0, "it is free")


def test_whoever_stops_and_begins_again_is_heard(page: Watching) -> None:
    page.browser.execute_script(
        "window.sockets = []; window.WebSocket = class extends WebSocket {"
        " constructor(...given) { super(...given); sockets.push(this); } }"
    )
    page.choose("live-model", "ears")
    page.at("live").click()
    page.until(lambda: page.text("live-told") == "somebody speaks", "speech is found")
    page.at("live").click()
    page.until(lambda: page.at("live").get_attribute("aria-pressed") == "false", "off")
    page.at("live").click()
    page.until(lambda: page.text("live-told") == "somebody speaks", "speech is found")
    # The end of the one before may be told late: its server was slow to agree.
    page.browser.execute_script("sockets[0].onclose(new CloseEvent('close', {code: 1006}))")
    assert page.at("live").get_attribute("aria-pressed") == "true"
    assert page.text("live-told") != "the server has closed the connection"
    page.at("live").click()
    page.until(lambda: page.server("ears")["active_slots"] == 0, "it is free")


def test_everything_has_a_name_for_those_who_do_not_see_it(page: Watching) -> None:
    page.until(lambda: page.row("ears"), "a row")
    script = (
        "return [...document.querySelectorAll('input, select, textarea, button, audio')]"
        ".filter((e) => !(e.labels?.length || e.ariaLabel || e.textContent.trim()))"
        ".map((e) => e.outerHTML)"
    )
    assert page.browser.execute_script(script) == []
    told = page.browser.find_elements("css selector", "[role=status], [role=log], output")
    assert len(told) >= 6
    assert page.browser.execute_script("return document.documentElement.lang") == "en"


def test_a_server_with_keys_asks_for_one_and_lets_nobody_manage(
    keyed: Served, chromium: Chrome
) -> None:
    page = Watching(chromium, keyed.url)
    page.open()
    page.until(lambda: page.at("key").is_displayed(), "it asks")
    assert page.row("voice") == []
    page.until(lambda: "needs an API key: enter it at the top" in page.text("server"), "where")
    page.at("key").send_keys("wrong", Keys.ENTER)
    page.until(lambda: "does not take the key: enter another" in page.text("server"), "it is wrong")
    assert page.at("key").is_displayed()
    page.at("key").clear()
    page.at("key").send_keys(KEY, Keys.ENTER)
    page.until(lambda: page.row("voice"), "the models")
    page.until(lambda: not page.at("key").is_displayed(), "it asks no more")
    assert not page.browser.find_element("css selector", ".managed").is_displayed()
    page.choose("live-model", "ears")
    page.at("live").click()
    page.until(lambda: page.text("live-told") == "somebody speaks", "the key opens the socket")
    page.at("live").click()
    page.no_complaints()


def test_a_server_that_ends_is_said_to_have_ended(
    model_store: object, chromium: Chrome, tmp_path: Path
) -> None:
    from tests.server.harness import simulated, started

    with started(tmp_path, [simulated("voice")], ui_enabled=True) as served:
        served.url = served.hear("listening on ").partition("listening on ")[2].split()[0]
        page = Watching(chromium, served.url)
        page.open()
        page.until(lambda: page.text("server") == "running", "running")
        served.signal()
        page.until(lambda: page.text("server") == "the server does not answer", "it is gone")
        page.choose("speak-model", "voice")
        page.at("speak").submit()
        page.until(lambda: page.text("speak-told") == "the server does not answer", "here too")

"""The engines page tells which families take live input, and it is true."""

import re
from pathlib import Path

import pytest

from paraudio.engines import LiveSession
from paraudio.engines.catalog import families
from paraudio.engines.families._piper_session import PiperSession
from paraudio.engines.families._simulated_session import SimulatedSession
from paraudio.engines.families.pocketsphinx_asr import PocketsphinxAsrSession
from paraudio.engines.families.silero_vad import SileroVadSession

PAGE = Path(__file__).parents[3] / "docs" / "engines.md"
SESSIONS = {
    "piper_tts": PiperSession,
    "pocketsphinx_asr": PocketsphinxAsrSession,
    "silero_vad": SileroVadSession,
    "simulated": SimulatedSession,
}


def told() -> dict[str, tuple[str, str]]:
    """The tasks and the word about live input of each family on the page."""
    rows = re.findall(
        r"^\| `(\w+)` \| ([`\w, ]+) \| (yes|no) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: (tasks, live) for name, tasks, live in rows}


def test_every_family_is_on_the_page_with_its_tasks() -> None:
    on_page = {name: re.findall(r"\w+", tasks) for name, (tasks, _) in told().items()}
    assert on_page == {name: list(family.tasks) for name, family in families().items()}
    assert on_page.keys() == SESSIONS.keys()


@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_the_page_says_which_sessions_take_live_input(name: str) -> None:
    assert (told()[name][1] == "yes") == issubclass(SESSIONS[name], LiveSession)

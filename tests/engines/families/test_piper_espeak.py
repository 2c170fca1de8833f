import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Final

import espeakng_loader
import pytest

from paraudio.engines import _espeak

CLAUSES: Final[dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("phonemes.json").read_text(encoding="utf-8")
)["clauses"]
ENGLISH: Final = CLAUSES["en-us"]


@pytest.mark.parametrize("voice", sorted(CLAUSES))
def test_text_becomes_the_phonemes_of_its_language(voice: str) -> None:
    known = CLAUSES[voice]
    assert _espeak.phonemes(voice, list(known)) == list(known.values())


def test_each_text_gets_its_own_answer() -> None:
    found = _espeak.phonemes("en-us", ["", "no", "   ", "yes"])
    assert found == ["", ENGLISH["no"], "", ENGLISH["yes"]]


def test_nothing_of_a_text_begins_the_next_one() -> None:
    _espeak.phonemes("en-us", ["Hello world. This"])
    assert _espeak.phonemes("en-us", ["xyz"]) == [ENGLISH["xyz"]]


def test_flags_of_words_in_another_language_are_not_spoken() -> None:
    (found,) = _espeak.phonemes("de", ["das Meeting heute"])
    assert len(found.split()) == 3
    assert "(" not in found


def test_long_clause_is_not_cut_off() -> None:
    (found,) = _espeak.phonemes("en-us", ["yes " * 500])
    assert found.split() == [ENGLISH["yes"]] * 500


@pytest.mark.parametrize("voice", ["klingon!", "", "en-us\0", "../../en"])
def test_unknown_voice_is_named(voice: str) -> None:
    with pytest.raises(_espeak.UnknownVoiceError, match="has no voice"):
        _espeak.check_voice(voice)
    assert _espeak.phonemes("en-us", ["no"]) == [ENGLISH["no"]]


def test_threads_with_different_voices_do_not_disturb_each_other() -> None:
    wrong: list[list[str]] = []
    start = threading.Barrier(6)

    def speak(voice: str) -> None:
        known = CLAUSES[voice]
        start.wait()
        for _ in range(100):
            found = _espeak.phonemes(voice, list(known))
            if found != list(known.values()):
                wrong.append(found)

    threads = [threading.Thread(target=speak, args=(voice,)) for voice in [*CLAUSES, *CLAUSES]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs names of open files")
def test_library_in_a_deep_folder_finds_its_data(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d" * 60] * 4)
    deep.mkdir(parents=True)
    link = deep / "espeak-ng-data"
    link.symlink_to(espeakng_loader.get_data_path())
    program = (
        f"import espeakng_loader; espeakng_loader.get_data_path = lambda: {str(link)!r}\n"
        "from paraudio.engines import _espeak; print(ascii(_espeak.phonemes('en-us', ['no'])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == ascii([ENGLISH["no"]]), done.stderr

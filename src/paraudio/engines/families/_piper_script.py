"""Letters that a voice does not read: espeak tells their names in the place of the words.

A word in the letters of another script is read in one of two ways. Some scripts espeak reads by the
rules of a language that is written in them (Georgian, Korean, those of India). Of the others it
tells the letters one by one ("em, ee, ar"), or only what kind of letters they are ("Chinese letter,
Chinese letter"), which nobody who sent words can want.

Only voices of languages in Latin letters are judged: what else a voice reads is not known for sure.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from paraudio.engines import _espeak
from paraudio.engines.families._piper_voice import PiperVoice
from paraudio.errors import InvalidRequestError
from paraudio.spec import Json

_IN_LATIN: Final = re.compile(
    "(af|az|bs|ca|cs|cy|da|de|en|eo|es|et|eu|fi|fo|fr|ga|gl|hr|hu|id|is|it|la|lb|lt|lv|ms|mt|nb|nl|"
    r"nn|no|pl|pt|ro|sk|sl|sq|sv|sw|tr|vi)([-_]|\Z)",
    re.IGNORECASE,
)
"""Languages that are written in Latin letters and in no others."""

_SCRIPTS: Final = {
    "ARABIC": "Arabic",
    "ARMENIAN": "Armenian",
    "BENGALI": "Bengali",
    "CJK": "Chinese",
    "CYRILLIC": "Cyrillic",
    "DEVANAGARI": "Devanagari",
    "ETHIOPIC": "Ethiopic",
    "GEORGIAN": "Georgian",
    "GREEK": "Greek",
    "GUJARATI": "Gujarati",
    "GURMUKHI": "Gurmukhi",
    "HANGUL": "Korean",
    "HEBREW": "Hebrew",
    "HIRAGANA": "Japanese",
    "KANNADA": "Kannada",
    "KATAKANA": "Japanese",
    "KHMER": "Khmer",
    "LAO": "Lao",
    "MALAYALAM": "Malayalam",
    "MYANMAR": "Burmese",
    "SINHALA": "Sinhala",
    "TAMIL": "Tamil",
    "TELUGU": "Telugu",
    "THAI": "Thai",
    "TIBETAN": "Tibetan",
}
"""By the first word of a letter's name in Unicode."""

_SIGNS: Final = frozenset({"Greek"})
"""Scripts of which one letter alone is a sign, and its name is how it is read."""

_PROBE: Final = 20
"""Letters of a word that are enough to see how it is read."""

_READ: Final = re.compile(r"\((?!en\))[a-z][\w-]*\)[^()]+\([\w-]+\)")
"""How espeak marks a word that it reads by the rules of another language than the voice's.

Names of letters it takes from English, so that what it marks as English is a name.
"""


@dataclass(frozen=True, slots=True)
class Unread:
    """Words of a text that a voice does not read.

    Attributes:
        scripts: The scripts that they are written in, in the order of the text.
        whole: Whether there is nothing else in the text that can be spoken.
    """

    scripts: tuple[str, ...]
    whole: bool


def unread(voice: PiperVoice, text: str) -> Unread | None:
    """Look for words that a voice does not read; None where there are none.

    Args:
        voice: The voice.
        text: The text.
    """
    if text.isascii() or not _is_judged(voice):
        return None
    words: dict[str, str] = {}
    rest = False
    for script, word in _words(text):
        if script is None or (script in _SIGNS and len(word) == 1):
            rest = rest or any(map(str.isalnum, word))
        elif len(word) > len(words.get(script, "")):
            words[script] = word
    scripts = [script for script, word in words.items() if not _is_read(voice, word[:_PROBE])]
    if not scripts:
        return None
    return Unread(tuple(scripts), whole=not rest and len(scripts) == len(words))


def check_readable(voice: PiperVoice, text: str) -> tuple[str, ...]:
    """Refuse a text that a voice does not read at all.

    Returns:
        The scripts of the words that it does not read, among others that it does.

    Raises:
        InvalidRequestError: There is nothing in the text that the voice reads.
    """
    found = unread(voice, text)
    if found is None:
        return ()
    if found.whole:
        raise InvalidRequestError(
            f"input is written in {_letters(found.scripts)}, which this voice for "
            f"{_language(voice)} does not read; use a voice for the language of the text",
            param="input",
        )
    return found.scripts


def warnings(voice: PiperVoice, scripts: Iterable[str]) -> list[Json]:
    """What is told of a text with words that a voice does not read: a sentence, or nothing."""
    named = tuple(dict.fromkeys(scripts))
    if not named:
        return []
    told = f"input has {_letters(named)}, which this voice for {_language(voice)} only names"
    return [f"{told}, one by one"]


def _letters(scripts: tuple[str, ...]) -> str:
    return f"{' and '.join(scripts)} letters"


def _language(voice: PiperVoice) -> str:
    return voice.language.replace("_", "-")


def _is_judged(voice: PiperVoice) -> bool:
    return voice.phoneme_type == "espeak" and _IN_LATIN.match(voice.language) is not None


def _words(text: str) -> Iterator[tuple[str | None, str]]:
    """Runs of one script; what stands between letters, and any other letter, has none."""
    script, run = None, ""
    for character in text:
        now = _script(character)
        if now != script and unicodedata.category(character)[0] != "M":
            if run:
                yield script, run
            script, run = now, ""
        run += character
    if run:
        yield script, run


def _script(character: str) -> str | None:
    if character.isascii():
        return None
    name = unicodedata.name(character, "").removeprefix("HALFWIDTH ")
    return _SCRIPTS.get(name.partition(" ")[0]) if character.isalpha() else None


def _is_read(voice: PiperVoice, word: str) -> bool:
    """Whether espeak reads a word, rather than to tell its letters."""
    [told] = _espeak.phonemes(voice.espeak_voice, [word], marked=True)
    return _READ.fullmatch(told) is not None

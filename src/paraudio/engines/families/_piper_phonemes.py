"""From an utterance to the numbers that a Piper voice reads.

The rules are those that Piper's voices were trained with: espeak's IPA in decomposed code points,
the mark that ends a clause kept as if it were a phoneme and followed by a space inside a sentence,
and numbers in the order BOS, PAD, then each phoneme and a PAD, then EOS.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from paraudio.engines import _espeak
from paraudio.engines._text import Utterance
from paraudio.engines.families._piper_voice import BOS, EOS, PAD, PiperVoice

MAX_PHONEMES: Final = 250
"""Phonemes that one run speaks, at the voice's own speed: about twelve seconds of sound.

What a run needs of memory grows by about 25 MB with each second of its sound.
"""


def pieces(
    voice: PiperVoice, utterance: Utterance, limit: int = MAX_PHONEMES
) -> Iterator[list[int]]:
    """The numbers of an utterance, in pieces that one run can speak.

    A phoneme that the voice does not know is left out, as Piper does: voices lack some that espeak
    has for words of other languages.

    Args:
        voice: The voice.
        utterance: Clauses of text.
        limit: The most phonemes of one piece.

    Yields:
        BOS to EOS of each piece; nothing where the voice can speak none of it.
    """
    spoken = voice.ids.keys() - {PAD, BOS, EOS}
    known = [each for each in _phonemes(voice, utterance) if each in spoken]
    for piece in _split(known, limit):
        if any(unicodedata.category(each[0])[0] in "LNS" for each in piece):
            yield _numbers(voice, piece)


def _phonemes(voice: PiperVoice, utterance: Utterance) -> list[str]:
    texts = [clause.text for clause in utterance]
    if voice.phoneme_type == "espeak":
        texts = _espeak.phonemes(voice.espeak_voice, texts)
    line = ""
    for text, clause in zip(texts, utterance, strict=True):
        line += text + clause.mark + " "
    found: list[str] = []
    for each in unicodedata.normalize("NFD", line.strip()):
        lowered = each if each in voice.ids else each.casefold()
        found.extend(voice.replaced.get(each, tuple(lowered)))
    return found


def _split(phonemes: Sequence[str], limit: int) -> Iterator[Sequence[str]]:
    """At the last space before the limit; at the limit itself where there is none."""
    start = 0
    while len(phonemes) - start > limit:
        window = phonemes[start : start + limit]
        spaces = [index for index, each in enumerate(window) if each == " "]
        end = start + (spaces[-1] + 1 if spaces else limit)
        yield phonemes[start:end]
        start = end
    if start < len(phonemes):
        yield phonemes[start:]


def _numbers(voice: PiperVoice, phonemes: Sequence[str]) -> list[int]:
    pad = voice.ids[PAD]
    numbers = [*voice.ids[BOS], *pad]
    for each in phonemes:
        numbers += voice.ids[each]
        numbers += pad
    return [*numbers, *voice.ids[EOS]]


def silent_piece(voice: PiperVoice) -> list[int]:
    """The shortest piece: nothing between BOS and EOS."""
    return _numbers(voice, [])

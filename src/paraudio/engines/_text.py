"""Text cut into what a voice speaks in one breath: utterances of clauses, each with its mark.

Cutting here, and not inside a phonemizer, keeps three promises: the first sound waits for the first
utterance only, an utterance is never so long that its sound fills the memory, and nothing of the
text is lost in some library's buffer. The marks that stay are the ones that voices were trained
with: they change the melody of what stands before them.
"""

import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_UTTERANCE: Final = 200
"""Characters of an utterance: about twelve seconds of speech."""

MAX_WORD: Final = 40
"""The longest run without a space that is left whole; the longest real words are shorter."""

_SEARCHED: Final = 2000
"""Text without an end is searched anew for each piece; longer text, for each eighth of it."""

_PIECE: Final = 20
"""What longer runs are cut into: spelled out letter by letter, this much is not yet cut off."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A stretch of words and the mark that ends it.

    Attributes:
        text: The words, never empty.
        mark: One of ``. ? ! , : ;``, or "" where the text has none.
    """

    text: str
    mark: str


Utterance = tuple[Clause, ...]

# Each mark, and its equals in other scripts.
_EQUALS: Final = (".…。।．", "?？؟", "!！", ",，、،", ";；؛—", ":：")  # noqa: RUF001 - other scripts
_MARKS: Final = {mark: equals[0] for equals in _EQUALS for mark in equals}
_ENDS: Final = ".?!"
_SPACED: Final = ".?!…,;:"
"""Marks that end something only where a space or the end follows: ``3.14`` and ``a:b`` go on."""

_ALONE: Final = "。．？！，、；：।؟،؛—"  # noqa: RUF001 - marks that need no space behind them
_CLOSERS: Final = "\"'”’»)\\]}"  # noqa: RUF001 - the quotes of print
# Possessive and anchored to the start of a run, so that no text makes the search quadratic.
_BREAK: Final = re.compile(
    rf"(?P<paragraph>\n\s*\n\s*)"
    rf"|(?<![{_SPACED}])(?P<mark>[{_SPACED}]++)(?P<close>[{_CLOSERS}]*+)(?=\s|\Z)"
    rf"|(?P<alone>[{_ALONE}]++)(?P<closed>[{_CLOSERS}]*+)"
)
_NO_END: Final = re.compile(r"(?:^|[\s(\"'.])(?:[^\W\d_]|Mr|Mrs|Ms|Dr|Prof|St|Nr|vs|cf|[Ff]ig)$")
"""Single letters and words behind which a dot never ends a sentence; of letters, only initials."""

_SELDOM_END: Final = re.compile(r"\.\w+$|(?:^|[\s(])(?:etc|al|ca|approx|inc|ltd|co|jr|sr|min|max)$")
"""Abbreviations (``p.m``, ``etc``) behind which a small letter goes on with the sentence."""

_OPENERS: Final = " \t\n\"'“‘«([{"  # noqa: RUF001 - the quotes of print
_CONTROL: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_MARKUP: Final = re.compile(r"\s*<(?:\?xml|speak)\b")
_TAG: Final = re.compile(r"<[^<>]*>")
_VOWELS: Final = frozenset("aeiouyаеёиоуыэюяіїєαεηιουω")  # noqa: RUF001 - three alphabets
_JOINERS: Final = "-'’"  # noqa: RUF001 - the apostrophe of print
_MAX_CONSONANTS: Final = 8


def utterances(text: str) -> Iterator[Utterance]:
    """Cut a text into utterances, lazily and in order.

    Every letter and digit of the text is in exactly one of them. Control characters become spaces,
    and the tags of a text that is SSML are dropped, so that its words remain.

    Args:
        text: Any text.

    Yields:
        At least one clause each, at most `MAX_UTTERANCE` characters together.
    """
    yield from _grouped(_clauses(_clean(text)))


def _grouped(clauses: Iterator[tuple[Clause, bool]]) -> Iterator[Utterance]:
    """Clauses up to the end of a sentence, or as many as an utterance may have."""
    open_clauses: list[Clause] = []
    size = 0
    for clause, ends in clauses:
        if open_clauses and size + len(clause.text) > MAX_UTTERANCE:
            yield tuple(open_clauses)
            open_clauses, size = [], 0
        open_clauses.append(clause)
        size += len(clause.text)
        if ends:
            yield tuple(open_clauses)
            open_clauses, size = [], 0
    if open_clauses:
        yield tuple(open_clauses)


class GrowingText:
    """Cuts text that is being written: piece by piece, into the utterances of the whole.

    An utterance comes as soon as no further text can change it. Markup has no sentences before it
    ends.
    """

    def __init__(self) -> None:
        self._text = ""
        self._seen = 0
        self._begun = False

    def push(self, text: str) -> list[Utterance]:
        """The utterances that are whole by ``text``, which follows the text before."""
        self._text += text
        if self._seen > _SEARCHED and len(self._text) < self._seen * 9 // 8:
            return []  # a long text without an end must not be searched for every letter of it
        self._seen = len(self._text)
        if not self._begun and _MARKUP.match(self._text):
            return []
        plain = _CONTROL.sub(" ", self._text)
        end = whole_sentences(plain)
        if not end:
            return []
        self._text, self._seen, self._begun = plain[end:], 0, True
        return list(_grouped(_clauses(plain, end)))

    def end(self) -> list[Utterance]:
        """The utterances that are left."""
        rest = _CONTROL.sub(" ", self._text) if self._begun else _clean(self._text)
        self._text = ""
        return list(_grouped(_clauses(rest)))


def whole_sentences(text: str) -> int:
    """Where the last sentence ends that no further text can change, in text that is being written.

    A mark counts once something stands behind it, because ``3.`` may become ``3.14``; one that may
    belong to an abbreviation, once the next word tells.

    Args:
        text: The text so far, from the start of a sentence on.

    Returns:
        How many characters are whole sentences; 0 while the first one goes on.
    """
    start = end = 0
    for match in _BREAK.finditer(text):
        run = match["mark"] or match["alone"]
        if run and (match.end() == len(text) or _is_open(text, start, match)):
            break
        if _is_inside(text, start, match):
            continue
        is_spoken = _is_spoken(text[start : match.start()])
        start = match.end()
        if is_spoken and (not run or _mark(run) in _ENDS):
            end = start
    return end


def _is_open(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether it is too soon to say if a dot belongs to an abbreviation."""
    rest = text[match.end() : match.end() + 20]
    if match["mark"] != "." or match["close"] or len(rest) == 20 or rest.strip(_OPENERS):
        return False
    before = text[max(start, match.start() - 10) : match.start()]
    return bool(_NO_END.search(before) or _SELDOM_END.search(before))


def _clean(text: str) -> str:
    if _MARKUP.match(text):
        text = html.unescape(_TAG.sub(" ", text))
    return _CONTROL.sub(" ", text)


def _clauses(text: str, end: int | None = None) -> Iterator[tuple[Clause, bool]]:
    """Clauses in order, and whether a sentence ends with each.

    With ``end``, only those before it, which is where one ends: what stands behind tells all the
    same what the last dots mean.
    """
    start = 0
    for match in _BREAK.finditer(text):
        if end is not None and match.end() > end:
            return
        if _is_inside(text, start, match):
            continue
        run = match["mark"] or match["alone"]
        mark = _mark(run) if run else ""
        body = text[start : match.start()] + (match["close"] or match["closed"] or "")
        yield from _cut(body, mark, ends=not mark or mark in _ENDS)
        start = match.end()
    if end is None:
        yield from _cut(text[start:], "", ends=True)


def _mark(run: str) -> str:
    """The first mark of a run that ends a sentence, else the first: ``?!`` asks, ``,...`` ends."""
    marks = [_MARKS[char] for char in run]
    return next((mark for mark in marks if mark in _ENDS), marks[0])


def _is_inside(text: str, start: int, match: re.Match[str]) -> bool:
    """Whether a dot belongs to an abbreviation that the sentence goes on behind."""
    if match["mark"] != "." or match["close"]:
        return False
    rest = text[match.end() : match.end() + 20].lstrip(_OPENERS)
    before = text[max(start, match.start() - 10) : match.start()]
    if rest[:1].islower() and _SELDOM_END.search(before):
        return True
    found = _NO_END.search(before)
    if not found or not rest:
        return False
    letters = before[found.start() :].strip(" \t\n(\"'.")
    return len(letters) > 1 or (letters.isupper() and letters != "I")


def _cut(body: str, mark: str, *, ends: bool) -> Iterator[tuple[Clause, bool]]:
    """The clause, in pieces where it is too long; a piece that is no end of its own ends too."""
    lines = _lines([piece for word in body.split() for piece in _cut_word(word)])
    spoken = [line for line in lines if _is_spoken(line)]
    for line in spoken[:-1]:
        yield Clause(line, ""), True
    if spoken:
        yield Clause(spoken[-1], mark), ends


def _lines(words: list[str]) -> Iterator[str]:
    """Words joined to lines of at most `MAX_UTTERANCE` characters."""
    line = ""
    for word in words:
        if line and len(line) + 1 + len(word) > MAX_UTTERANCE:
            yield line
            line = ""
        line = f"{line} {word}" if line else word
    if line:
        yield line


def _is_spoken(line: str) -> bool:
    """Whether anything in it is a letter, a digit or a symbol that has a name."""
    return any(unicodedata.category(char)[0] in "LNS" for char in line)


def _cut_word(word: str) -> list[str]:
    """The word itself, or pieces of a run that a phonemizer would cut off."""
    if len(word) <= _PIECE or (len(word) <= MAX_WORD and _is_pronounceable(word)):
        return [word]
    return [word[at : at + _PIECE] for at in range(0, len(word), _PIECE)]


def _is_pronounceable(word: str) -> bool:
    """Whether it is read as a word and not spelled: letters, with vowels all along."""
    run = 0
    for char in unicodedata.normalize("NFD", word.lower()):
        if char in _VOWELS or char in _JOINERS:
            run = 0
        elif char.isalpha():
            run += 1
            if run > _MAX_CONSONANTS:
                return False
        elif not unicodedata.combining(char):
            return False
    return True

"""Bytes of a live body to the pieces that a session is fed: frames of sound, sentences of text."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from paraudio.audio import RAW_FORMATS, from_raw
from paraudio.engines import Audio, Piece, whole_sentences
from paraudio.errors import InvalidRequestError

LONG_SENTENCE: Final = 400
"""Characters without the end of a sentence, after which a text is cut between two words."""

TEXT_TURN: Final = 2048
"""Bytes of text that are cut into sentences before others have their turns: some milliseconds."""

SOUND_TURN: Final = 2**18
"""More than a connection has read at a time: sound is turned into floats at once."""

_FILES: Final = {
    b"RIFF": "wav",
    b"RF64": "wav",
    b"OggS": "ogg",
    b"fLaC": "flac",
    b"ID3": "mp3",
    b"\x1aE\xdf\xa3": "webm",
}
"""How files begin that are often sent in the place of bare samples."""

_FEW: Final = max(map(len, _FILES))


class Pieces(Protocol):
    """Turns the bytes of one body into pieces; plain code, used for one body.

    Attributes:
        turn: How many bytes are to be taken at a time.
    """

    turn: int

    def take(self, data: bytes) -> Sequence[Piece]:
        """Take the next bytes, and give the pieces that are complete with them.

        Raises:
            InvalidRequestError: The bytes are not what the route takes.
        """

    def end(self) -> Sequence[Piece]:
        """Give what is left at the end of the body.

        Raises:
            InvalidRequestError: The body ends in the middle of something.
        """


@dataclass(frozen=True, slots=True)
class SoundFormat:
    """What bare samples are.

    Attributes:
        rate: Frames a second.
        channels: Samples of a frame.
        sample_format: One of `RAW_FORMATS`.
    """

    rate: int
    channels: int
    sample_format: str

    @property
    def frame_bytes(self) -> int:
        """Bytes of a frame."""
        return RAW_FORMATS[self.sample_format] * self.channels


class SoundPieces(Pieces):
    """Interleaved samples, as mono sound; a frame that is cut between two chunks is made whole.

    The conversion is done where it is called: what a connection has read at most, some 128 KiB, is
    a fraction of a millisecond of work.
    """

    turn = SOUND_TURN

    def __init__(self, form: SoundFormat) -> None:
        self._form = form
        self._rest = b""
        self._begun = False

    def take(self, data: bytes) -> Sequence[Audio]:
        """The frames that are complete.

        Raises:
            InvalidRequestError: The body begins like a sound file.
        """
        data = self._rest + data if self._rest else data
        if not self._begun:
            if len(data) < _FEW:
                self._rest = data
                return ()
            _check_bare(data)
            self._begun = True
        whole = len(data) - len(data) % self._form.frame_bytes
        self._rest = data[whole:]
        if not whole:
            return ()
        samples = from_raw(data[:whole], self._form.sample_format, self._form.channels)
        return (Audio(samples, self._form.rate),)

    def end(self) -> Sequence[Audio]:
        """What is too short to begin like anything; a frame that is not complete is an error."""
        rest, self._rest, self._begun = self._rest, b"", True
        told = self.take(rest)
        if self._rest:
            form = self._form
            raise InvalidRequestError(
                f"the body ends with {len(self._rest)} of the {form.frame_bytes} bytes of a frame; "
                f"sample_format {form.sample_format} and channels {form.channels} must be what "
                "was sent",
                param="sample_format",
            )
        return told


def _check_bare(data: bytes) -> None:
    """Refuse a file: its header would be taken for sound, and its rate for the query's."""
    for start, kind in _FILES.items():
        if data.startswith(start):
            raise InvalidRequestError(
                f"the body must be bare samples, and begins like a {kind} file; send files to "
                "/v1/audio/transcriptions",
                param="sample_format",
            )


class TextPieces(Pieces):
    """UTF-8 text, in whole sentences; a character that is cut between two chunks is made whole.

    A sentence is given with the blanks behind it, and with one where it has none: a family that
    cuts text by itself sees that the sentence is over, and does not wait for the next one.
    """

    turn = TEXT_TURN

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._before = 0
        self._text = ""

    def take(self, data: bytes) -> Sequence[str]:
        """The sentences that no further text can change."""
        return self._sentences(self._decoded(data))

    def end(self) -> Sequence[str]:
        """What is left, whether it ends a sentence or not."""
        told = self._sentences(self._decoded(b"", final=True))
        rest, self._text = self._text, ""
        return [*told, rest] if rest.strip() else told

    def _decoded(self, data: bytes, *, final: bool = False) -> str:
        carried = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(data, final)
        except UnicodeDecodeError as error:
            place = self._before - carried + error.start
            raise InvalidRequestError(
                f"the body must be UTF-8 text; byte {place} of it is not", param="input"
            ) from error
        self._before += len(data)
        return text

    def _sentences(self, text: str) -> list[str]:
        """Add to the text, and take what is whole or too long from its front."""
        self._text += text
        found = []
        if end := whole_sentences(self._text):
            rest = self._text[end:].lstrip()
            whole = self._text[: len(self._text) - len(rest)]
            found.append(whole if whole[-1].isspace() else f"{whole} ")
            self._text = rest
        while len(self._text) > LONG_SENTENCE:
            cut = max(self._text.rfind(" ", 0, LONG_SENTENCE), 0) or LONG_SENTENCE
            found.append(self._text[:cut])
            self._text = self._text[cut:]
        return [piece for piece in found if piece.strip()]

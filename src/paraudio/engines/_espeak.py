"""Text to phonemes by espeak-ng, which is one machine for the whole process.

The library keeps its voice, its place in a text and even a character of look-ahead in global
variables: a text that is abandoned between two clauses begins the next one. So each call here holds
one lock, sets its own voice, and reads every text to its end before it lets go. A call takes
milliseconds; it runs in worker threads only.

espeak-ng is under the GPL-3. It is loaded at the first use and by nothing else in paraudio.
"""

import ctypes
import functools
import os
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_lock: Final = threading.Lock()

# From espeak-ng's speak_lib.h.
_SYNCHRONOUS: Final = 2  # AUDIO_OUTPUT_SYNCHRONOUS: no sound device is opened
_DONT_EXIT: Final = 0x8000  # espeakINITIALIZE_DONT_EXIT: report a missing file, do not end us
_UTF8: Final = 1  # espeakCHARS_UTF8
_IPA: Final = 2  # espeakPHONEMES_IPA

_MAX_PATH: Final = 160  # N_PATH_HOME, with the end of the string

_LANGUAGE_SWITCH: Final = re.compile(r"\([^)]+\)")
"""espeak writes ``(en)word(fr)`` around a word that it reads in another language."""


class EspeakError(Exception):
    """espeak-ng cannot be used; the message says why."""


class UnknownVoiceError(EspeakError):
    """espeak-ng has no such voice."""


def phonemes(voice: str, texts: Sequence[str], *, marked: bool = False) -> list[str]:
    """The IPA phonemes of each text.

    Args:
        voice: A voice of espeak-ng (``en-us``, ``de``, ...).
        texts: Clauses without the marks that end them.
        marked: Whether to keep espeak's marks around what it reads by the rules of another
            language, such as ``(ko)`` before it and ``(en-us)`` behind it.

    Returns:
        One string for each text, in order, words apart by a space, stress marks before vowels.

    Raises:
        UnknownVoiceError: There is no such voice.
        EspeakError: The library cannot be used.
    """
    with _lock:
        library = _library()
        _set_voice(library, voice)
        read = [_read(library, text) for text in texts]
    if not marked:
        read = [
            [_LANGUAGE_SWITCH.sub("", clause).strip() for clause in clauses] for clauses in read
        ]
    return [" ".join(filter(None, clauses)) for clauses in read]


def check_voice(voice: str) -> None:
    """Load the library if need be, and make sure that it has the voice.

    Raises:
        UnknownVoiceError: There is no such voice.
        EspeakError: The library cannot be used.
    """
    with _lock:
        _set_voice(_library(), voice)


@functools.cache
def _library() -> ctypes.CDLL:
    import espeakng_loader  # noqa: PLC0415 - the one place that loads a GPL library, when needed

    data = _short(espeakng_loader.get_data_path())
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    library.espeak_Initialize.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_int]
    library.espeak_SetVoiceByName.argtypes = [ctypes.c_char_p]
    library.espeak_TextToPhonemes.argtypes = [
        ctypes.POINTER(ctypes.c_void_p),
        ctypes.c_int,
        ctypes.c_int,
    ]
    library.espeak_TextToPhonemes.restype = ctypes.c_char_p
    if library.espeak_Initialize(_SYNCHRONOUS, 0, data, _DONT_EXIT) <= 0:
        raise EspeakError(f"espeak-ng cannot read its data in {os.fsdecode(data)!r}")
    return library


def _short(path: str) -> bytes:
    """The path itself, or another name of it that fits into the library's 160 bytes.

    Environments lie deep in some places; the descriptor stays open for as long as the library.
    """
    data = os.fsencode(path)
    if len(data) < _MAX_PATH or not Path("/proc/self/fd").is_dir():
        return data
    return b"/proc/self/fd/%d" % os.open(data, os.O_RDONLY)


def _set_voice(library: ctypes.CDLL, voice: str) -> None:
    name = voice.encode()
    if b"\0" in name or not name or library.espeak_SetVoiceByName(name) != 0:
        raise UnknownVoiceError(f"espeak-ng has no voice {voice!r}")


def _read(library: ctypes.CDLL, text: str) -> list[str]:
    """All clauses that espeak finds in one text."""
    buffer = ctypes.create_string_buffer(text.replace("\0", " ").encode("utf-8", "replace"))
    place = ctypes.c_void_p(ctypes.addressof(buffer))
    found: list[str] = []
    while place.value is not None:
        piece = library.espeak_TextToPhonemes(ctypes.byref(place), _UTF8, _IPA)
        if piece:
            found.append(piece.decode("utf-8", "replace").strip())
    return found

"""Where the sound of a request comes from: its form, its JSON, or a file of the server."""

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from paraudio.audio import decode
from paraudio.engines import Audio
from paraudio.errors import InvalidRequestError
from paraudio.http._fields import Fields, refusal, shown
from paraudio.http._multipart import Upload
from paraudio.http._paths import read_allowed

MAX_VOICE_BYTES: Final = 5 * 2**20
"""The largest recording of a voice that a request may carry, decoded, in bytes."""

_LETTERS: Final = 2**20
_MAX_HEAD: Final = 1000
_MARK: Final = ";base64,"
_MAX_NAME: Final = 255


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file of the request's form."""

    upload: Upload
    param: str

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound, at no more than ``most_rate``; blocking."""
        del roots, limit  # the body's own bound holds
        view = self.upload.view()
        try:
            return decode(view, param=self.param, check=check, most_rate=most_rate)
        except InvalidRequestError as error:
            name = _bare_name(self.upload, view)
            if name is None:
                raise
            raise InvalidRequestError(
                f"{self.param} came as the text {shown(name)}, without a file "
                f"(curl: -F {self.param}=@{name})",
                param=self.param,
            ) from error


def _bare_name(upload: Upload, view: memoryview) -> str | None:
    """The name that came in place of a file, as curl sends it without its @; None for any other."""
    if upload.named or not 0 < len(view) <= _MAX_NAME:
        return None
    try:
        name = bytes(view).decode()
    except UnicodeDecodeError:
        return None
    return name if name.isprintable() else None


@dataclass(frozen=True, slots=True)
class Encoded:
    """Bytes as base64 text, or as a data URI."""

    text: str
    param: str
    max_bytes: int = 0

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound, at no more than ``most_rate``; blocking."""
        del roots, limit
        return decode(self.bytes(), param=self.param, check=check, most_rate=most_rate)

    def bytes(self) -> bytearray:
        """The bytes.

        Raises:
            InvalidRequestError: The text is no base64, or holds too much.
        """
        text, start = self.text, 0
        if text[:5].lower() == "data:":
            # Not the first comma: browsers write codecs=vp8,opus before it.
            start = text[:_MAX_HEAD].lower().find(_MARK) + len(_MARK)
            if start < len(_MARK):
                raise InvalidRequestError(
                    f"{self.param} must be a base64 data URI", param=self.param
                )
        data = bytearray()
        try:
            for piece in _base64_pieces(text, start):
                data += piece
                if self.max_bytes and len(data) > self.max_bytes:
                    raise self._too_large()
        except (binascii.Error, ValueError) as error:
            raise InvalidRequestError(
                f"{self.param} is not valid base64", param=self.param
            ) from error
        return data

    def _too_large(self) -> InvalidRequestError:
        return InvalidRequestError(
            f"{self.param} holds more than {self.max_bytes} bytes", param=self.param
        )


def _base64_pieces(text: str, start: int) -> Iterator[bytes]:
    """Decode a piece at a time, so that other threads have their turns in between."""
    rest = ""
    ended = False
    for at in range(start, len(text), _LETTERS):
        piece = rest + "".join(text[at : at + _LETTERS].split())
        whole = len(piece) // 4 * 4
        rest = piece[whole:]
        if ended and piece:
            raise ValueError("there is more behind the end")
        yield base64.b64decode(piece[:whole], validate=True)
        ended = piece[:whole].endswith("=")
    if rest:
        raise ValueError("the last four letters are not complete")


@dataclass(frozen=True, slots=True)
class OnServer:
    """A file of the server, inside the allowed folders."""

    path: str
    param: str

    def decode(
        self,
        roots: Iterable[str],
        limit: int,
        check: Callable[[], None],
        most_rate: int | None = None,
    ) -> Audio:
        """The sound, at no more than ``most_rate``; blocking."""
        data = read_allowed(self.path, roots, limit=limit, param=self.param)
        return decode(data, param=self.param, check=check, most_rate=most_rate)


Source: TypeAlias = Uploaded | Encoded | OnServer


def source_field(fields: Fields, name: str, *, max_bytes: int = 0) -> Source | None:
    """Read a field that holds a sound.

    It is a path or a data URI as a string, ``{type: "path", path}``, or
    ``{type: "base64", data}``.

    Args:
        fields: The request.
        name: The field.
        max_bytes: The most bytes that base64 may hold; 0 is no bound of its own.
    """
    value, param = fields.get(name), fields.param(name)
    if value is None:
        return None
    if isinstance(value, str):
        if value[:5].lower() == "data:":
            return Encoded(value, param, max_bytes)
        return OnServer(fields.filled(name), param)
    if not isinstance(value, dict):
        raise refusal(param, "a path, a data URI or an object with type", value)
    inner = fields.within(name, value)
    kind = inner.text("type")
    if kind == "path":
        return OnServer(inner.filled("path"), inner.param("path"))
    if kind == "base64":
        return Encoded(inner.filled("data"), inner.param("data"), max_bytes)
    raise refusal(inner.param("type"), "path or base64", kind)


def base64_field(fields: Fields, name: str) -> Source | None:
    """Read a field that holds a sound as base64 text or a data URI."""
    if fields.get(name) is None:
        return None
    return Encoded(fields.filled(name), fields.param(name))
